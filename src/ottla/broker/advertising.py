"""Where a broker can be reached, as it announces it: to clients in Metadata, to brokers in the coordination store."""

from collections.abc import Sequence

from ottla.coordination.paths import BrokerRegistration
from ottla.core.cluster import BrokerEndpoint
from ottla.core.config.config import BrokerConfig
from ottla.core.config.listeners import Listener
from ottla.core.config.values import ConfigValue
from ottla.core.types import TimestampMs


def advertised_endpoints(
    config: BrokerConfig, bound: Sequence[Listener], *, host_name: str
) -> tuple[BrokerEndpoint, ...]:
    """The endpoints that Metadata shows, with the ports that the kernel chose; `host_name` is this machine's."""
    ports = {listener.name: listener.port for listener in bound}
    return tuple(
        BrokerEndpoint(listener.name, listener.host or host_name, listener.port or ports[listener.name])
        for listener in config.advertised_listeners()
    )


def derived_configs(
    config: BrokerConfig, bound: Sequence[Listener], endpoints: Sequence[BrokerEndpoint]
) -> dict[str, ConfigValue]:
    """What the start chose for keys that are not set or leave something open: DescribeConfigs shows these values."""
    return {
        "listeners": tuple(str(listener) for listener in bound),
        "advertised.listeners": tuple(
            str(Listener(entry.listener_name, entry.host, entry.port)) for entry in endpoints
        ),
        "inter.broker.listener.name": config.inter_broker_listener_name(),
        "ottla.coordination.path": config.coordination_path,
    }


def registration_of(
    config: BrokerConfig, bound: Sequence[Listener], endpoints: Sequence[BrokerEndpoint], now_ms: TimestampMs
) -> BrokerRegistration:
    """The broker's node in the store; host and port are those of the listener for brokers."""
    for_brokers = config.inter_broker_listener_name()
    between = next((entry for entry in endpoints if entry.listener_name == for_brokers), endpoints[0])
    return BrokerRegistration(
        endpoints=tuple(f"{entry.listener_name}://{entry.host}:{entry.port}" for entry in endpoints),
        listener_security_protocol_map={listener.name: listener.security_protocol for listener in bound},
        timestamp_ms=now_ms,
        rack=config.get_optional_str("broker.rack"),
        host=between.host,
        port=between.port,
    )
