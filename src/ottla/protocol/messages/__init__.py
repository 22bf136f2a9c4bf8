"""The messages of the protocol, one module for each API. Written by tools/generate_messages.py."""
