"""Where the broker listens and what it tells others about it: `listeners`, `advertised.listeners` and their relatives.

Text in, endpoints out; no socket is touched here.
"""

import socket
from collections.abc import Mapping
from typing import NamedTuple

SERVED_SECURITY_PROTOCOLS = ("PLAINTEXT",)
_SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class ListenerConfigError(ValueError):
    """A listener setting that can't be followed; the message names the key, the value and what to write instead."""


class Endpoint(NamedTuple):
    """One address of a broker. An empty host, in `listeners` only, means every interface."""

    listener_name: str
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener_name}://{host}:{self.port}"


class ListenerPlan(NamedTuple):
    """The listener settings as a whole, checked against each other."""

    listeners: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    inter_broker_listener_name: str

    def advertised_with_bound_ports(self, bound_ports: Mapping[str, int]) -> tuple[Endpoint, ...]:
        """What to publish once the sockets are bound: port 0 becomes the port that the kernel chose."""
        return tuple(
            endpoint._replace(port=bound_ports[endpoint.listener_name]) if endpoint.port == 0 else endpoint
            for endpoint in self.advertised
        )


def plan_listeners(
    *,
    listeners: str,
    advertised_listeners: str = "",
    security_protocol_map: str = "",
    inter_broker_listener_name: str = "",
) -> ListenerPlan:
    """Read the four settings; raises ListenerConfigError."""
    protocols = _parse_security_protocol_map(security_protocol_map)
    bound = _parse_endpoints("listeners", listeners, protocols)
    if not bound:
        raise ListenerConfigError("listeners: no listener given; write e.g. PLAINTEXT://127.0.0.1:9092")
    _refuse_shared_ports(bound)
    if advertised_listeners.strip():
        advertised = _parse_endpoints("advertised.listeners", advertised_listeners, protocols)
    else:
        advertised = tuple(
            endpoint if endpoint.host else endpoint._replace(host=socket.gethostname()) for endpoint in bound
        )
    _check_advertised(bound, advertised, is_explicit=bool(advertised_listeners.strip()))
    return ListenerPlan(bound, advertised, _choose_inter_broker(inter_broker_listener_name.strip().upper(), advertised))


def _parse_security_protocol_map(text: str) -> dict[str, str]:
    protocols = {name: name for name in _SECURITY_PROTOCOLS}
    for entry in filter(None, (piece.strip() for piece in text.split(","))):
        name, colon, protocol = (piece.strip().upper() for piece in entry.partition(":"))
        if not colon or not name or protocol not in _SECURITY_PROTOCOLS:
            raise ListenerConfigError(
                f"listener.security.protocol.map: {entry!r} is not NAME:PROTOCOL with a protocol of "
                f"{', '.join(_SECURITY_PROTOCOLS)}"
            )
        protocols[name] = protocol
    return protocols


def _parse_endpoints(key: str, text: str, protocols: Mapping[str, str]) -> tuple[Endpoint, ...]:
    endpoints: dict[str, Endpoint] = {}
    for entry in filter(None, (piece.strip() for piece in text.split(","))):
        endpoint = _parse_endpoint(key, entry, protocols)
        if endpoint.listener_name in endpoints:
            raise ListenerConfigError(
                f"{key}: {endpoint.listener_name} is there twice; each listener needs its own name"
            )
        endpoints[endpoint.listener_name] = endpoint
    return tuple(endpoints.values())


def _parse_endpoint(key: str, entry: str, protocols: Mapping[str, str]) -> Endpoint:
    name, separator, address = entry.partition("://")
    name = name.strip().upper()
    host, colon, port_text = address.rpartition(":")
    if not separator or not name or not colon:
        raise ListenerConfigError(f"{key}: {entry!r} is not NAME://host:port; write e.g. PLAINTEXT://127.0.0.1:9092")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ListenerConfigError(f"{key}: {entry!r}: write an IPv6 address in brackets, e.g. {name}://[::1]:9092")
    # isdecimal alone would let digits of other scripts through.
    if not (port_text.isascii() and port_text.isdecimal()) or int(port_text) > 65_535:
        raise ListenerConfigError(f"{key}: {entry!r}: the port {port_text!r} is not a number of 0-65535")
    protocol = protocols.get(name)
    if protocol is None:
        raise ListenerConfigError(
            f"{key}: {entry!r}: no security protocol is known for the listener {name}; "
            f"add {name}:PLAINTEXT to listener.security.protocol.map"
        )
    if protocol not in SERVED_SECURITY_PROTOCOLS:
        raise ListenerConfigError(
            f"{key}: {entry!r}: the security protocol {protocol} is not served by this version; "
            f"use {', '.join(SERVED_SECURITY_PROTOCOLS)}"
        )
    return Endpoint(name, protocol, host, int(port_text))


def _refuse_shared_ports(endpoints: tuple[Endpoint, ...]) -> None:
    taken: dict[tuple[int, bool], Endpoint] = {}
    for endpoint in endpoints:
        if endpoint.port == 0:
            continue
        # One IPv4 and one IPv6 address may share a port number, as they may in Kafka.
        place = (endpoint.port, ":" in endpoint.host)
        if place in taken:
            raise ListenerConfigError(f"listeners: {taken[place]} and {endpoint} share a port; give each its own")
        taken[place] = endpoint


def _check_advertised(bound: tuple[Endpoint, ...], advertised: tuple[Endpoint, ...], *, is_explicit: bool) -> None:
    names = {endpoint.listener_name for endpoint in bound}
    for endpoint in advertised:
        if endpoint.listener_name not in names:
            raise ListenerConfigError(
                f"advertised.listeners: {endpoint} has no listener of its name, only {', '.join(sorted(names))}"
            )
        if endpoint.host in ("", "0.0.0.0", "::"):
            shown = "advertised.listeners" if is_explicit else "listeners"
            raise ListenerConfigError(
                f"{shown}: {endpoint} can't be advertised, no client can connect to that address; "
                f"set advertised.listeners to a host that clients reach"
            )


def _choose_inter_broker(wanted: str, advertised: tuple[Endpoint, ...]) -> str:
    names = [endpoint.listener_name for endpoint in advertised]
    if not wanted:
        return names[0]
    if wanted not in names:
        raise ListenerConfigError(
            f"inter.broker.listener.name: {wanted} is not advertised; advertised are {', '.join(names)}"
        )
    return wanted
