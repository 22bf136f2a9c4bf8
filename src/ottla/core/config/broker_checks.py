"""Rules between several broker keys, checked after each single key is valid."""

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.core.config.listeners import parse_listener, parse_protocol_map

if TYPE_CHECKING:
    from ottla.core.config.config import BrokerConfig

_WILDCARD_HOSTS = ("0.0.0.0", "::")


class BrokenRule(NamedTuple):
    """What is wrong, and the keys that are part of it."""

    problem: str
    names: tuple[str, ...]


def broken_rules(config: "BrokerConfig", *, set_names: Collection[str], refused: Collection[str]) -> list[BrokenRule]:
    """All problems; a rule with a key that was refused already is skipped, since its value is not known."""
    return [
        BrokenRule(problem, names)
        for names, rule in _RULES
        if not any(name in refused for name in names)
        for problem in rule(config, set_names)
    ]


def _one_broker_id(config: "BrokerConfig", set_names: Collection[str]) -> Iterator[str]:
    if "broker.id" in set_names and "node.id" in set_names and config["broker.id"] != config["node.id"]:
        yield f"broker.id={config['broker.id']} and node.id={config['node.id']}: two names of one number; set one"


def _retention_not_zero(config: "BrokerConfig", set_names: Collection[str]) -> Iterator[str]:
    # Not the key's own check: a topic may set retention.ms to 0, as a way to empty it.
    if config["log.retention.ms"] == 0:
        yield "log.retention.ms=0: expected -1 (no limit) or at least 1"


def _log_dirs_named(config: "BrokerConfig", set_names: Collection[str]) -> Iterator[str]:
    names = config.get_list("log.dirs")
    if not names or not all(names) or len(set(names)) < len(names):
        yield "log.dirs: expected one or more different directories"


def _listeners_fit(config: "BrokerConfig", set_names: Collection[str]) -> Iterator[str]:
    try:
        protocols = parse_protocol_map(config.get_list("listener.security.protocol.map"))
    except ValueError as error:
        yield f"listener.security.protocol.map: {error}"
        return
    listeners = [parse_listener(text) for text in config.get_list("listeners")]
    names = {listener.name for listener in listeners}
    if len(names) < len(listeners):
        yield "listeners: a name is used twice; give each listener its own"
    # An IPv4 and an IPv6 address may share a port number, as they may in Kafka.
    ports = [(listener.port, ":" in listener.host) for listener in listeners if listener.port]
    if len(set(ports)) < len(ports):
        yield "listeners: two of them share a port; give each its own"
    for listener in listeners:
        protocol = protocols.get(listener.name)
        if protocol is None:
            yield f"listeners: {listener.name} has no security protocol in listener.security.protocol.map"
        elif protocol != "PLAINTEXT":
            yield f"known to Kafka, not served by Ottla: security protocol {protocol} of the listener {listener.name}"
    inter_broker = config.get_optional_str("inter.broker.listener.name")
    if inter_broker and inter_broker.upper() not in names:
        yield f"inter.broker.listener.name={inter_broker}: not among listeners"
    if config["advertised.listeners"] is None:
        yield from (
            f"listeners: clients can't connect to {listener.host}; set advertised.listeners, or leave the host empty"
            for listener in listeners
            if listener.host in _WILDCARD_HOSTS
        )
        return
    for text in config.get_list("advertised.listeners"):
        advertised = parse_listener(text)
        if advertised.name not in names:
            yield f"advertised.listeners: {advertised.name} is not among listeners"
        if advertised.host in _WILDCARD_HOSTS:
            yield f"advertised.listeners: clients can't connect to {advertised.host}"


def _request_fits_in_memory(config: "BrokerConfig", set_names: Collection[str]) -> Iterator[str]:
    queued = config.get_int("queued.max.request.bytes")
    largest = config.get_int("socket.request.max.bytes")
    if 0 <= queued < largest:
        yield f"queued.max.request.bytes={queued}: expected -1 or at least socket.request.max.bytes, which is {largest}"


def _addresses_left(config: "BrokerConfig", set_names: Collection[str]) -> Iterator[str]:
    if config.get_int("max.connections.per.ip") == 0 and not config.get_list("max.connections.per.ip.overrides"):
        yield "max.connections.per.ip=0: nobody could connect; name addresses in max.connections.per.ip.overrides"


def _replica_waits_fit(config: "BrokerConfig", set_names: Collection[str]) -> Iterator[str]:
    wait_ms = config.get_int("replica.fetch.wait.max.ms")
    timeout_ms = config.get_int("replica.socket.timeout.ms")
    if timeout_ms < wait_ms:
        yield f"replica.socket.timeout.ms={timeout_ms}: expected at least replica.fetch.wait.max.ms, which is {wait_ms}"


# The keys that a rule reads, and the rule.
_RULES: tuple[tuple[tuple[str, ...], Callable[["BrokerConfig", Collection[str]], Iterator[str]]], ...] = (
    (("broker.id", "node.id"), _one_broker_id),
    (("log.retention.ms",), _retention_not_zero),
    (("log.dirs", "log.dir"), _log_dirs_named),
    (
        ("listeners", "advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name"),
        _listeners_fit,
    ),
    (("queued.max.request.bytes", "socket.request.max.bytes"), _request_fits_in_memory),
    (("max.connections.per.ip", "max.connections.per.ip.overrides"), _addresses_left),
    (("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"), _replica_waits_fit),
)
