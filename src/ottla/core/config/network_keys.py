"""Broker keys of listeners, connections and requests."""

from ottla.core.config.definition import ConfigKey, DynamicMode, Importance
from ottla.core.config.listeners import complaint_about_address_limits, complaint_about_listeners
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
        check=complaint_about_listeners,
    ),
    ConfigKey(
        "advertised.listeners",
        LIST,
        None,
        "The addresses that clients are told to connect to, by listener name; those of listeners when not set.",
        HIGH,
        check=complaint_about_listeners,
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
        "The largest request; a larger one closes its connection before anything is allocated.",
        HIGH,
        at_least=1,
    ),
    ConfigKey(
        "socket.listen.backlog.size",
        INT,
        1024,
        "Connections that wait to be accepted; the operating system may allow fewer. (Kafka: 50.)",
        at_least=1,
    ),
    ConfigKey(
        "queued.max.request.bytes",
        LONG,
        -1,
        "Bytes of requests held in memory over all connections; beyond it nothing more is read until some are done. "
        "-1 means 256 MiB here, and no limit in Kafka.",
        at_least=-1,
    ),
    ConfigKey(
        "max.connections",
        INT,
        INT_MAX,
        "Connections at a time; one more is closed at once.",
        dynamic=CLUSTER_WIDE,
        at_least=0,
    ),
    ConfigKey(
        "max.connections.per.ip",
        INT,
        INT_MAX,
        "Connections at a time from one address; one more is closed at once. 0 allows only the addresses that "
        "max.connections.per.ip.overrides names.",
        dynamic=CLUSTER_WIDE,
        at_least=0,
    ),
    ConfigKey(
        "max.connections.per.ip.overrides",
        LIST,
        (),
        "Limits of their own for some addresses: address:count, separated by commas.",
        dynamic=CLUSTER_WIDE,
        check=complaint_about_address_limits,
    ),
    ConfigKey(
        "max.connection.creation.rate",
        INT,
        INT_MAX,
        "New connections a second; further ones wait to be accepted.",
        dynamic=CLUSTER_WIDE,
        at_least=1,
    ),
    ConfigKey(
        "connections.max.idle.ms",
        LONG,
        600000,
        "A connection on which nothing happened for this long is closed; -1 keeps it open.",
        at_least=-1,
    ),
    ConfigKey(
        "fetch.max.bytes",
        INT,
        57671680,
        "The most that one fetch is answered with; a first batch that is larger is still returned whole.",
        at_least=1024,
    ),
    ConfigKey(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        "Fetch sessions kept; clients beyond it get full fetches.",
        at_least=0,
    ),
    ConfigKey(
        "ottla.fetch.session.partitions.max",
        INT,
        100_000,
        "Partitions kept over all fetch sessions, about 0.4 KB each; clients beyond it get full fetches.",
        LOW,
        at_least=0,
    ),
    ConfigKey(
        "ottla.frame.deadline.ms",
        LONG,
        30000,
        "A request must arrive whole within this time of its first byte, or its connection is closed.",
        LOW,
        at_least=1,
    ),
)
