"""The addresses of brokers, as users write them and as metadata has them."""

from typing import NamedTuple


class Address(NamedTuple):
    """The address of a broker; prints as users write it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(servers: str) -> list[Address]:
    """`host:port,host:port`; ValueError says which part is wrong."""
    addresses = []
    for part in filter(None, (part.strip() for part in servers.split(","))):
        host, separator, port = part.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not separator or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{part!r} is not host:port")
        addresses.append(Address(host, int(port)))
    if not addresses:
        raise ValueError("no bootstrap server was given; expected host:port[,host:port]")
    return addresses
