"""What decisions about groups depend on from outside: the broker's settings, and who is calling."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class GroupSettings(NamedTuple):
    """The values of the `group.*` keys; asked for anew at each use, because they may change while we run."""

    initial_rebalance_delay_ms: int
    session_timeout_min_ms: int
    session_timeout_max_ms: int
    group_max_size: int


SettingsSource: TypeAlias = Callable[[], GroupSettings]


class Caller(NamedTuple):
    """Who sent a request, and in which version; the host as Kafka shows it: `/127.0.0.1`."""

    version: int
    client_id: str | None
    client_host: str
