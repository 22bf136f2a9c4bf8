"""Decides about topics and partitions, and writes the decisions into the coordination store."""
