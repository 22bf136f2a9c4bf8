"""Why an append is refused, in the order in which Kafka says it: the partition, then the batch, then the replicas."""

from typing import TYPE_CHECKING

from ottla.core.errors import ErrorCode
from ottla.core.types import NO_TIMESTAMP_MS, TimestampMs
from ottla.records.header import CHECKSUMMED_POSITION, TRANSACTIONAL_MASK
from ottla.records.validate import ProduceFault, check_produced
from ottla.storage.log_results import AppendInfo

if TYPE_CHECKING:
    from ottla.replication.partition import Partition

ATTRIBUTES_POSITION = CHECKSUMMED_POSITION + 1  # their low byte


def refused_by_partition(partition: "Partition", *, is_forbidden: bool, is_led_here: bool) -> AppendInfo | None:
    """What concerns the partition itself. `is_forbidden`: a client writes to an internal topic."""
    if is_forbidden:
        return refused_as_internal(partition.topic_partition.topic)
    if partition.is_offline:
        return refused(ErrorCode.KAFKA_STORAGE_ERROR, "the log directory of this partition is offline")
    if not is_led_here:
        return refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    return None


def refused_by_batch_or_replicas(
    partition: "Partition", records: memoryview | ProduceFault | None, *, now_ms: TimestampMs, produce_version: int
) -> AppendInfo:
    """What a partition that is led here does not take."""
    if records is None:
        return refused(ErrorCode.INVALID_RECORD, "no batch; exactly one is expected")
    if isinstance(records, ProduceFault):
        return refused(*records)
    config = partition.log.config
    if len(records) > ATTRIBUTES_POSITION and records[ATTRIBUTES_POSITION] & TRANSACTIONAL_MASK:
        # First of all a batch has to be sound: else the bit may be a flipped one.
        found = check_produced(records, config.produce_limits, produce_version=produce_version, now_ms=now_ms)
        if isinstance(found, ProduceFault):
            return refused(*found)
        return refused(ErrorCode.INVALID_TXN_STATE, "transactions are not served")
    return refused(
        ErrorCode.NOT_ENOUGH_REPLICAS,
        f"{partition.topic_partition}: {len(partition.state.isr)} replicas in sync,"
        f" min.insync.replicas is {config.min_insync_replicas}",
    )


def refused_as_internal(topic: str) -> AppendInfo:
    return refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is written by the broker alone")


def refused(error_code: ErrorCode, message: str | None, record_indexes: tuple[int, ...] = ()) -> AppendInfo:
    return AppendInfo(-1, -1, NO_TIMESTAMP_MS, -1, error_code, message, record_indexes)
