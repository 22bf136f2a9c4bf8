"""The config keys that producer, consumer and admin share: how to reach brokers and for how long to try."""

from ottla.core.config.definition import ConfigKey, Importance
from ottla.core.config.values import ConfigType, ConfigValue
from ottla.links.addresses import parse_bootstrap

_HIGH, _LOW = Importance.HIGH, Importance.LOW
_INT, _LONG, _LIST, _STRING = ConfigType.INT, ConfigType.LONG, ConfigType.LIST, ConfigType.STRING


def _problem_with_servers(value: ConfigValue) -> str | None:
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
        "The first brokers to connect to, host:port separated by commas; the client learns the others from them.",
        _HIGH,
        check=_problem_with_servers,
    ),
    ConfigKey("client.id", _STRING, "ottla", "The name of this client in the broker's logs, metrics and quotas."),
    ConfigKey(
        "client.dns.lookup",
        _STRING,
        "use_all_dns_ips",
        "How the client uses the addresses of a host name: one after the other.",
        _LOW,
        valid_values=("use_all_dns_ips",),
    ),
    ConfigKey(
        "security.protocol",
        _STRING,
        "PLAINTEXT",
        "How connections are secured. Only PLAINTEXT is supported so far.",
        valid_values=("PLAINTEXT",),
    ),
    ConfigKey(
        "request.timeout.ms",
        _INT,
        30_000,
        "A request without an answer after this time fails, and the client closes its connection.",
        at_least=1,
    ),
    ConfigKey("retry.backoff.ms", _LONG, 100, "The wait before a retry; grows with each failure.", at_least=0),
    ConfigKey("retry.backoff.max.ms", _LONG, 1_000, "The most that retry.backoff.ms grows to.", at_least=0),
    ConfigKey(
        "reconnect.backoff.ms",
        _LONG,
        50,
        "The wait before the client connects to a broker again; grows with each failure.",
        at_least=0,
    ),
    ConfigKey("reconnect.backoff.max.ms", _LONG, 1_000, "The most that reconnect.backoff.ms grows to.", at_least=0),
    ConfigKey(
        "socket.connection.setup.timeout.ms",
        _LONG,
        10_000,
        "A connection must be set up and its versions negotiated within this time; grows with each failure.",
        at_least=1,
    ),
    ConfigKey(
        "socket.connection.setup.timeout.max.ms",
        _LONG,
        30_000,
        "The most that socket.connection.setup.timeout.ms grows to.",
        at_least=1,
    ),
    ConfigKey(
        "connections.max.idle.ms",
        _LONG,
        540_000,
        "The client closes a connection that was idle for this long; -1 keeps it open.",
        at_least=-1,
    ),
    ConfigKey(
        "metadata.max.age.ms",
        _LONG,
        300_000,
        "The client fetches metadata again after this time at the latest.",
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

# Keys of all of Kafka's clients that do nothing here, some with the reason.
COMMON_NOT_SERVED = {
    "metric.reporters": "",
    "metrics.num.samples": "",
    "metrics.recording.level": "",
    "metrics.sample.window.ms": "",
    "auto.include.jmx.reporter": "",
    "enable.metrics.push": "",
    "config.providers": "",
    "metadata.recovery.strategy": "the client always tries the bootstrap servers again when it reaches no known broker",
    "metadata.recovery.rebootstrap.trigger.ms": "",
    "security.providers": "",
}
COMMON_NOT_SERVED_PREFIXES = ("ssl.", "sasl.", "config.providers.")
