"""Requests to brokers by callback: one port, implemented by a thread for blocking clients and by asyncio."""
