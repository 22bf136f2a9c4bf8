"""The settings of one client's network, from its config (`ClientConfig.network_settings`)."""

from typing import NamedTuple


class NetworkSettings(NamedTuple):
    """Kafka's defaults, except for socket buffers, which the operating system sizes better by itself."""

    request_timeout_ms: int = 30_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    setup_timeout_ms: int = 10_000
    setup_timeout_max_ms: int = 30_000
    connections_max_idle_ms: int = 540_000
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
