"""Addresses as rules compare them: the /24 of an IPv4 address, the /48 of an IPv6 one; and the wider net around it."""

from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from typing import Final

_REMEMBERED: Final = 1 << 16


@lru_cache(maxsize=_REMEMBERED)
def network_of(ip: str | None) -> str:
    """Empty for text that is not an address."""
    if not ip:
        return ""
    if ":" in ip:
        try:
            return ":".join(IPv6Address(ip.partition("%")[0]).exploded.split(":")[:3])
        except AddressValueError:
            return ""
    parts = ip.split(".")
    if len(parts) != 4 or not all(part.isascii() and part.isdecimal() and int(part) < 256 for part in parts):
        return ""
    return ".".join(str(int(part)) for part in parts[:3])


def wider(network: str) -> str:
    """The /16, or the /32 of IPv6."""
    return network.rpartition(":" if ":" in network else ".")[0]
