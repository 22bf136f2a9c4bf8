"""A port that stays reserved while nobody listens on it, so that a broker can restart at the same address."""

import socket
from typing import Final

_HOST: Final = "127.0.0.1"


def reserve_port() -> socket.socket:
    """Bound but not listening: nobody else gets the port, and connections are refused."""
    return bind_beside(0)


def bind_beside(port: int) -> socket.socket:
    """A socket to listen with on a reserved port."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Works beside the reservation and after old connections; SO_REUSEADDR would let strangers in too.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind((_HOST, port))
    return bound
