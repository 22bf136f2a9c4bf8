"""Addresses of brokers, as users write them."""

import pytest

from ottla.links.addresses import Address, parse_bootstrap


def test_bootstrap_takes_several_addresses_and_ipv6() -> None:
    assert parse_bootstrap(" a:1, [::1]:9092,") == [Address("a", 1), Address("::1", 9092)]
    assert str(Address("::1", 9092)) == "[::1]:9092"


@pytest.mark.parametrize("servers", ["", ",", "host", "host:", ":9092", "host:0", "host:70000", "host:x"])
def test_a_wrong_bootstrap_is_named(servers: str) -> None:
    with pytest.raises(ValueError):
        parse_bootstrap(servers)
