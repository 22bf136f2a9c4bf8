"""Sockets: listeners, connections, frames in, answers out in order, limits."""
