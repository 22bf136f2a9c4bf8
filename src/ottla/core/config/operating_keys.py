"""Broker keys for operators: metrics, health, the log of the process."""

from ottla.core.config.definition import ConfigKey, Importance
from ottla.core.config.listeners import parse_listener
from ottla.core.config.values import ConfigType, ConfigValue

BOOLEAN, LONG, LIST, STRING = ConfigType.BOOLEAN, ConfigType.LONG, ConfigType.LIST, ConfigType.STRING
LOW = Importance.LOW

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def parse_address(text: str) -> tuple[str, int]:
    """`host:port`, as in a listener but without a name; ValueError says what is wrong."""
    try:
        listener = parse_listener(f"HTTP://{text}")
    except ValueError as error:
        raise ValueError(f"{text}: expected host:port, an IPv6 address in brackets") from error
    return listener.host, listener.port


def parse_logger_level(text: str) -> tuple[str, str]:
    """`logger:LEVEL`; ValueError says what is wrong."""
    name, separator, level = text.rpartition(":")
    if not separator or not name or level.upper() not in LOG_LEVELS:
        raise ValueError(f"{text!r}: expected logger:LEVEL with one of {', '.join(LOG_LEVELS)}")
    return name, level.upper()


def _problem_with_address(value: ConfigValue) -> str | None:
    if value is None:
        return None
    assert isinstance(value, str)
    try:
        parse_address(value)
    except ValueError as error:
        return str(error)
    return None


def _problem_with_levels(value: ConfigValue) -> str | None:
    assert isinstance(value, tuple)
    try:
        for entry in value:
            parse_logger_level(entry)
    except ValueError as error:
        return str(error)
    return None


OPERATING_KEYS = (
    ConfigKey(
        "ottla.metrics.listen",
        STRING,
        None,
        "The host:port that serves /metrics, /healthz and /readyz over HTTP. No host means every address of the "
        "machine, port 0 means any free port; when not set, nothing is measured.",
        check=_problem_with_address,
    ),
    ConfigKey(
        "ottla.metrics.partitions",
        BOOLEAN,
        True,
        "Whether /metrics has offsets and sizes of each partition; without them its size depends on topics only.",
        LOW,
    ),
    ConfigKey(
        "ottla.health.timeout.ms",
        LONG,
        2000,
        "The event loop must answer within this time, or /healthz and /readyz say that it is stuck, and /metrics that "
        "it could not be asked.",
        LOW,
        at_least=1,
    ),
    ConfigKey(
        "ottla.logging.format",
        STRING,
        "human",
        "The form of the process's own log, on standard error: lines for people, or one JSON object a line.",
        LOW,
        valid_values=("human", "json"),
    ),
    ConfigKey(
        "ottla.logging.level",
        STRING,
        "INFO",
        "The lowest level that is logged.",
        LOW,
        valid_values=LOG_LEVELS,
    ),
    ConfigKey(
        "ottla.logging.levels",
        LIST,
        (),
        "Levels for single loggers and those below them: logger:LEVEL, separated by commas.",
        LOW,
        check=_problem_with_levels,
    ),
)
