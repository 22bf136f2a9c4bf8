"""Framing, message types and their codecs. Knows bytes only: no socket, no file, no clock."""
