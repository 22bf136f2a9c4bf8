"""Which region an address is from, by a user's table: a JSON object, network -> [country, province, city].

Without one the invite fraud detector compares numbers with the inviter's own (docs/detector-invite-fraud.md).
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Final

from ottla.pipeline.detection.facts import Region
from ottla.pipeline.detection.invite_fraud import RegionOfNetwork

_REMEMBERED: Final = 1 << 16
# A fact keeps so many bits of an address, so rules can't distinguish narrower networks.
_BITS_KEPT: Final = {4: 24, 6: 48}


class AddressTableError(Exception):
    """The file can't be read, or an entry is not a network with its region."""


def load_address_table(path: str | Path) -> RegionOfNetwork:
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AddressTableError(f"address table {path} can't be read as JSON: {error}") from error
    if not isinstance(document, dict):
        raise AddressTableError(f"address table {path}: expected an object, network -> [country, province, city]")
    try:
        return address_table(document)
    except ValueError as error:
        raise AddressTableError(f"address table {path}: {error}") from error


def address_table(entries: Mapping[str, Sequence[str]]) -> RegionOfNetwork:
    """The narrowest network that holds an address decides; ValueError names an entry that is wrong."""
    regions: dict[IPv4Network | IPv6Network, Region] = {}
    for text, place in entries.items():
        network = ip_network(text)
        if network.prefixlen > _BITS_KEPT[network.version]:
            raise ValueError(f"{text}: expected a /{_BITS_KEPT[network.version]} or wider")
        if isinstance(place, str) or len(place) < 2 or not all(isinstance(each, str) for each in place):
            raise ValueError(f"{text}: expected [country, province, city], not {place!r}")
        regions[network] = Region(place[0], place[1])
    lengths = {version: sorted({each.prefixlen for each in regions if each.version == version}) for version in (4, 6)}

    @lru_cache(maxsize=_REMEMBERED)
    def region_of(network: str) -> Region | None:
        whole = ip_network(f"{network}::/48" if ":" in network else f"{network}.0/24")
        for length in reversed(lengths[whole.version]):
            found = regions.get(whole.supernet(new_prefix=length))
            if found is not None:
                return found
        return None

    return region_of
