"""What a peer may cost: the limits of the network, named after their configuration keys.

Only values live here; a comment names the file that enforces each.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

NO_LIMIT = 2_147_483_647

# `queued.max.request.bytes=-1` means "no bound" in Kafka; strangers could fill the memory of such a broker.
DEFAULT_IN_FLIGHT_MAX_BYTES = 256 * 1024 * 1024

_NO_OVERRIDES: Mapping[str, int] = MappingProxyType({})


class NetworkLimits(NamedTuple):
    """Defaults are Kafka's where Kafka has the key, except the backlog and the buffers (-1: the kernel tunes them)."""

    # inbox.py
    socket_request_max_bytes: int = 104_857_600
    pre_auth_request_max_bytes: int = 524_288
    queued_max_request_bytes: int = -1  # all connections together; -1: DEFAULT_IN_FLIGHT_MAX_BYTES

    # connection_quota.py
    max_connections: int = NO_LIMIT
    max_connections_per_ip: int = NO_LIMIT
    max_connections_per_ip_overrides: Mapping[str, int] = _NO_OVERRIDES
    max_connection_creation_rate: int = NO_LIMIT  # a second

    # expiry.py
    connections_max_idle_ms: int = 600_000  # 0 or less: never
    frame_deadline_ms: int = 30_000
    write_stall_ms: int = 600_000
    sweep_interval_ms: int = 1_000

    # acceptor.py
    socket_listen_backlog_size: int = 1024
    socket_send_buffer_bytes: int = -1
    socket_receive_buffer_bytes: int = -1

    @property
    def in_flight_max_bytes(self) -> int:
        wanted = self.queued_max_request_bytes
        return wanted if wanted > 0 else DEFAULT_IN_FLIGHT_MAX_BYTES
