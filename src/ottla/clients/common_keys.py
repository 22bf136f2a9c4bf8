"""The config keys that producer, consumer and admin have in common: how to reach brokers and for how long to try."""

from ottla.core.config.definition import ConfigKey, Importance
from ottla.core.config.values import ConfigType, ConfigValue
from ottla.links.addresses import parse_bootstrap

_HIGH, _LOW = Importance.HIGH, Importance.LOW
_INT, _LONG, _LIST, _STRING = ConfigType.INT, ConfigType.LONG, ConfigType.LIST, ConfigType.STRING


def _complaint_about_servers(value: ConfigValue) -> str | None:
    try:
        parse_bootstrap(",".join(value) if isinstance(value, tuple) else str(value))
    except ValueError as error:
        return str(error)
    return None


COMMON_KEYS = (
    ConfigKey(
        "bootstrap.servers",
        _LIST,
        ("127.0.0.1:9092",),
        "Brokers to ask first, as host:port separated by commas; the others are learnt from them.",
        _HIGH,
        check=_complaint_about_servers,
    ),
    ConfigKey("client.id", _STRING, "ottla", "Name of this client in the broker's logs, metrics and quotas."),
    ConfigKey(
        "client.dns.lookup",
        _STRING,
        "use_all_dns_ips",
        "A host's addresses are tried one after the other.",
        _LOW,
        valid_values=("use_all_dns_ips",),
    ),
    ConfigKey(
        "security.protocol",
        _STRING,
        "PLAINTEXT",
        "How connections are secured. Only PLAINTEXT is there so far.",
        valid_values=("PLAINTEXT",),
    ),
    ConfigKey(
        "request.timeout.ms",
        _INT,
        30_000,
        "A request that is not answered by then fails, and its connection is closed.",
        at_least=1,
    ),
    ConfigKey(
        "retry.backoff.ms", _LONG, 100, "Wait before something is tried again; grows with each failure.", at_least=0
    ),
    ConfigKey("retry.backoff.max.ms", _LONG, 1_000, "What retry.backoff.ms grows to at most.", at_least=0),
    ConfigKey(
        "reconnect.backoff.ms",
        _LONG,
        50,
        "Wait before a broker is connected to again; grows with each failure.",
        at_least=0,
    ),
    ConfigKey("reconnect.backoff.max.ms", _LONG, 1_000, "What reconnect.backoff.ms grows to at most.", at_least=0),
    ConfigKey(
        "socket.connection.setup.timeout.ms",
        _LONG,
        10_000,
        "Until then a broker must have taken the connection and said what it serves; grows with each failure.",
        at_least=1,
    ),
    ConfigKey(
        "socket.connection.setup.timeout.max.ms",
        _LONG,
        30_000,
        "What socket.connection.setup.timeout.ms grows to at most.",
        at_least=1,
    ),
    ConfigKey(
        "connections.max.idle.ms",
        _LONG,
        540_000,
        "A connection that was not used for so long is closed; -1 keeps it.",
        at_least=-1,
    ),
    ConfigKey(
        "metadata.max.age.ms",
        _LONG,
        300_000,
        "Metadata is asked for again after so long at the latest.",
        _LOW,
        at_least=0,
    ),
    ConfigKey(
        "send.buffer.bytes",
        _INT,
        -1,
        "SO_SNDBUF of each connection; -1 leaves it to the operating system. (Java: 131072.)",
        at_least=-1,
    ),
    ConfigKey(
        "receive.buffer.bytes",
        _INT,
        -1,
        "SO_RCVBUF of each connection; -1 leaves it to the operating system. (Java: 32768 or 65536.)",
        at_least=-1,
    ),
)

# Kafka's keys that all of its clients have and that do nothing here, with the reason where there is one.
COMMON_NOT_SERVED = {
    "metric.reporters": "",
    "metrics.num.samples": "",
    "metrics.recording.level": "",
    "metrics.sample.window.ms": "",
    "auto.include.jmx.reporter": "",
    "enable.metrics.push": "",
    "config.providers": "",
    "metadata.recovery.strategy": "bootstrap servers are always tried again when no known broker is reached",
    "metadata.recovery.rebootstrap.trigger.ms": "",
    "security.providers": "",
}
COMMON_NOT_SERVED_PREFIXES = ("ssl.", "sasl.", "config.providers.")
