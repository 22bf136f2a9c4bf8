"""The settings of one log, as plain values: what a topic's configuration comes down to for storage.

The broker builds it from a topic's configuration; a change of configuration is a new instance.
"""

from typing import NamedTuple

from ottla.core.types import TimestampMs
from ottla.records.compression import GZIP, LZ4, ZSTD
from ottla.records.validate import ProduceLimits

_SEVEN_DAYS_MS = 7 * 24 * 3600 * 1000
NEVER = 2**63 - 1

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


class LogConfig(NamedTuple):
    """Immutable; shared by all partitions of a topic. Names are Kafka's topic keys with `_` for `.`."""

    segment_bytes: int = 1 << 30
    segment_ms: int = _SEVEN_DAYS_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = _SEVEN_DAYS_MS  # -1: for ever
    retention_bytes: int = -1  # -1: any size
    max_message_bytes: int = 1048588
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    file_delete_delay_ms: int = 60_000
    message_timestamp_type: str = CREATE_TIME
    message_timestamp_before_max_ms: TimestampMs = NEVER
    message_timestamp_after_max_ms: TimestampMs = 3_600_000
    compact: bool = False
    delete: bool = True
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    min_insync_replicas: int = 1
    walks_records: bool = False  # of every produced batch; the broker's, not a topic's

    @property
    def is_log_append_time(self) -> bool:
        return self.message_timestamp_type == LOG_APPEND_TIME

    @property
    def produce_limits(self) -> ProduceLimits:
        """What the check of a produced batch needs; made once per configuration, not per batch."""
        return ProduceLimits(
            max_message_bytes=self.max_message_bytes,
            is_log_append_time=self.is_log_append_time,
            timestamp_before_max_ms=self.message_timestamp_before_max_ms,
            timestamp_after_max_ms=self.message_timestamp_after_max_ms,
        )

    def level_of(self, codec: int) -> int | None:
        """The level that batches are re-compressed with; None where the codec has none."""
        levels = {
            GZIP: self.compression_gzip_level,
            LZ4: self.compression_lz4_level,
            ZSTD: self.compression_zstd_level,
        }
        return levels.get(codec)
