"""Connections out of a process to brokers, without I/O: bytes and time in, bytes and decisions out.

Both clients and brokers stand on it; whoever owns a loop brings sockets and timers.
"""
