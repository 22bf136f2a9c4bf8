"""Parsers for `listeners`, `advertised.listeners` and the connection limits per address."""

from typing import NamedTuple

from ottla.core.config.values import INT_MAX, ConfigValue


class Listener(NamedTuple):
    """One address. An empty host means every address of the machine; port 0 means any free port."""

    name: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_listener(text: str) -> Listener:
    """`NAME://host:port`, the host perhaps empty or an IPv6 address in brackets; ValueError says what is wrong."""
    name, separator, address = text.partition("://")
    if not separator or not name or not name.replace("_", "").replace("-", "").isalnum():
        raise ValueError(f"{text}: expected NAME://host:port")
    host, separator, port_text = address.rpartition(":")
    if not separator or not (port_text.isascii() and port_text.isdigit() and len(port_text) <= 5):
        raise ValueError(f"{text}: expected NAME://host:port")
    if int(port_text) > 65535:
        raise ValueError(f"{text}: a port is at most 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif any(character in host for character in ":/[] "):
        raise ValueError(f"{text}: expected NAME://host:port, an IPv6 address in brackets")
    return Listener(name.upper(), host, int(port_text))  # names ignore case, as in Kafka


def parse_protocol_map(entries: tuple[str, ...]) -> dict[str, str]:
    """Listener name to security protocol, both in capitals; ValueError for an entry that is not NAME:PROTOCOL."""
    protocols: dict[str, str] = {}
    for entry in entries:
        name, separator, protocol = entry.partition(":")
        if not separator or not name or protocol.upper() not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
            raise ValueError(f"{entry!r}: expected NAME:PROTOCOL with PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
        protocols[name.upper()] = protocol.upper()
    return protocols


def parse_address_limits(entries: tuple[str, ...]) -> dict[str, int]:
    """Address to the number of its connections, from `address:count` entries; ValueError for another form."""
    limits: dict[str, int] = {}
    for entry in entries:
        address, separator, count_text = entry.rpartition(":")
        count_is_number = count_text.isascii() and count_text.isdigit() and len(count_text) <= 10
        if not separator or not address or not count_is_number or int(count_text) > INT_MAX:
            raise ValueError(f"{entry!r}: expected address:count")
        limits[address.removeprefix("[").removesuffix("]")] = int(count_text)
    return limits


def problem_with_listeners(value: ConfigValue) -> str | None:
    """For a key's `check`: what is wrong with one list of listeners."""
    assert isinstance(value, tuple)
    if not value:
        return "expected at least one NAME://host:port"
    names: set[str] = set()
    addresses: set[tuple[str, int]] = set()
    for text in value:
        try:
            listener = parse_listener(text)
        except ValueError as error:
            return str(error)
        if listener.name in names:
            return f"the listener name {listener.name} appears twice"
        address = (listener.host, listener.port)
        if address in addresses and listener.port != 0:
            return f"{listener.host}:{listener.port} appears twice"
        names.add(listener.name)
        addresses.add(address)
    return None


def problem_with_address_limits(value: ConfigValue) -> str | None:
    """For a key's `check`."""
    assert isinstance(value, tuple)
    try:
        parse_address_limits(value)
    except ValueError as error:
        return str(error)
    return None
