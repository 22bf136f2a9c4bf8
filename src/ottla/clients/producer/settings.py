"""A producer's settings, with Kafka's names; `keys.py` reads them from a config."""

from typing import Final, NamedTuple

from ottla.records.compression import NONE

ACKS_ALL: Final = -1
MAX_IN_FLIGHT_IDEMPOTENT: Final = 5  # brokers remember that many batches of a producer


class ProducerSettings(NamedTuple):
    """Kafka's defaults, except for `batch_size` (see its key)."""

    acks: int = ACKS_ALL
    codec: int = NONE
    compression_level: int | None = None
    batch_size: int = 64 * 1024
    linger_ms: int = 5
    buffer_memory: int = 32 * 1024 * 1024
    max_block_ms: int = 60_000
    max_request_size: int = 1024 * 1024
    max_in_flight: int = MAX_IN_FLIGHT_IDEMPOTENT
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    retries: int = 2**31 - 1
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    is_idempotent: bool = True
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    partitioner_ignore_keys: bool = False
    partitioner_adaptive: bool = True
