"""Requests to brokers by callback: one port, carried by a thread for blocking clients and by asyncio for the others."""
