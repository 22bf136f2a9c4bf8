"""Broker keys for listeners, connections and requests."""

from ottla.core.config.definition import ConfigKey, DynamicMode, Importance
from ottla.core.config.listeners import problem_with_address_limits, problem_with_listeners
from ottla.core.config.values import INT_MAX, ConfigType

HIGH, LOW = Importance.HIGH, Importance.LOW
CLUSTER_WIDE = DynamicMode.CLUSTER_WIDE
INT, LONG, LIST, STRING = ConfigType.INT, ConfigType.LONG, ConfigType.LIST, ConfigType.STRING

NETWORK_KEYS = (
    ConfigKey(
        "listeners",
        LIST,
        ("PLAINTEXT://:9092",),
        "Where the broker listens: NAME://host:port, separated by commas. No host means every address of the "
        "machine, port 0 means any free port.",
        HIGH,
        check=problem_with_listeners,
    ),
    ConfigKey(
        "advertised.listeners",
        LIST,
        None,
        "The addresses that clients connect to, by listener name; those of listeners when not set.",
        HIGH,
        check=problem_with_listeners,
    ),
    ConfigKey(
        "listener.security.protocol.map",
        LIST,
        ("PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"),
        "The security protocol of each listener name. Only PLAINTEXT is served so far.",
    ),
    ConfigKey(
        "inter.broker.listener.name",
        STRING,
        None,
        "The listener whose address the broker registers for other brokers; the first one when not set.",
    ),
    ConfigKey(
        "socket.send.buffer.bytes",
        INT,
        -1,
        "SO_SNDBUF of each connection; -1 leaves it to the operating system. (Kafka: 102400.)",
        HIGH,
        at_least=-1,
    ),
    ConfigKey(
        "socket.receive.buffer.bytes",
        INT,
        -1,
        "SO_RCVBUF of each connection; -1 leaves it to the operating system. (Kafka: 102400.)",
        HIGH,
        at_least=-1,
    ),
    ConfigKey(
        "socket.request.max.bytes",
        INT,
        104857600,
        "The largest request; the broker closes the connection of a larger one before it allocates anything.",
        HIGH,
        at_least=1,
    ),
    ConfigKey(
        "socket.listen.backlog.size",
        INT,
        1024,
        "How many connections may wait to be accepted; the operating system may allow fewer. (Kafka: 50.)",
        at_least=1,
    ),
    ConfigKey(
        "queued.max.request.bytes",
        LONG,
        -1,
        "Bytes of requests in memory over all connections; above it the broker reads nothing more until some are done. "
        "-1 means 256 MiB here, and no limit in Kafka.",
        at_least=-1,
    ),
    ConfigKey(
        "max.connections",
        INT,
        INT_MAX,
        "The most connections at a time; the broker closes further ones at once.",
        dynamic=CLUSTER_WIDE,
        at_least=0,
    ),
    ConfigKey(
        "max.connections.per.ip",
        INT,
        INT_MAX,
        "The most connections at a time from one address; the broker closes further ones at once. 0 allows only the "
        "addresses in max.connections.per.ip.overrides.",
        dynamic=CLUSTER_WIDE,
        at_least=0,
    ),
    ConfigKey(
        "max.connections.per.ip.overrides",
        LIST,
        (),
        "Limits for single addresses: address:count, separated by commas.",
        dynamic=CLUSTER_WIDE,
        check=problem_with_address_limits,
    ),
    ConfigKey(
        "max.connection.creation.rate",
        INT,
        INT_MAX,
        "The most new connections per second; further ones wait to be accepted.",
        dynamic=CLUSTER_WIDE,
        at_least=1,
    ),
    ConfigKey(
        "connections.max.idle.ms",
        LONG,
        600000,
        "The broker closes a connection that was idle for this long; -1 keeps it open.",
        at_least=-1,
    ),
    ConfigKey(
        "fetch.max.bytes",
        INT,
        57671680,
        "The most bytes in one answer to a fetch; a larger first batch is still returned whole.",
        at_least=1024,
    ),
    ConfigKey(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        "The most fetch sessions; further clients get full fetches.",
        at_least=0,
    ),
    ConfigKey(
        "ottla.fetch.session.partitions.max",
        INT,
        100_000,
        "The most partitions in all fetch sessions together, about 0.4 KB each; further clients get full fetches.",
        LOW,
        at_least=0,
    ),
    ConfigKey(
        "ottla.frame.deadline.ms",
        LONG,
        30000,
        "A request must arrive whole within this time of its first byte, or the broker closes its connection.",
        LOW,
        at_least=1,
    ),
)
