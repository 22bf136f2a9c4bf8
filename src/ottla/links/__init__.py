"""Connections from a process to brokers, without I/O: bytes and time in, bytes and decisions out.

Clients use it, and so will brokers; the owner of a loop provides sockets and timers.
"""
