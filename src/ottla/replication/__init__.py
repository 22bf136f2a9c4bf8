"""Partitions and their replicas: leader append, reads, high watermark."""
