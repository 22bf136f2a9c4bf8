"""When committed offsets expire, by Kafka's rules (KIP-211), and when a group goes with them.

Decides only; the tombstones that it gives are appended and replayed like every other record.
"""

from collections.abc import Callable
from typing import TypeAlias

from ottla.coordinator.group.group import CONSUMER_PROTOCOL_TYPE, Group
from ottla.coordinator.group.groups import Groups
from ottla.coordinator.group.offsets import Offsets
from ottla.coordinator.group.schemas import OffsetKey, OffsetValue, encode_offset_key
from ottla.coordinator.group.states import EMPTY, STABLE
from ottla.coordinator.runtime.ports import KeyValue
from ottla.core.types import NO_TIMESTAMP_MS, TimestampMs

# Together one batch, which must stay well below what the topic takes; the rest goes the next time.
_BATCH_BYTES_MAX = 512 * 1024

_IdleSince: TypeAlias = Callable[[OffsetValue], TimestampMs]


def expired_records(groups: Groups, offsets: Offsets, *, now_ms: TimestampMs, retention_ms: int) -> list[KeyValue]:
    """Tombstones of the offsets that are over, and of the groups that have neither members nor offsets then."""
    # In the log, a tombstone made now would come after a commit that is not in the state yet, and take it away.
    left_alone = offsets.group_ids_in_flight()
    records: list[KeyValue] = []
    bytes_left = _BATCH_BYTES_MAX
    for group in list(groups.all()):
        if group.group_id in left_alone:
            continue
        expired = _expired_keys(groups, group, offsets, now_ms=now_ms, retention_ms=retention_ms)
        if expired is None:
            continue
        keys, are_all = expired
        encoded = [encode_offset_key(key) for key in keys]
        bytes_left -= sum(map(len, encoded)) + len(group.group_id)
        if bytes_left < 0 and records:
            break
        records += [(key, None) for key in encoded]
        if are_all and group.is_abandoned:
            records += groups.remove(group.group_id)
    return records


def _expired_keys(
    groups: Groups, group: Group, offsets: Offsets, *, now_ms: TimestampMs, retention_ms: int
) -> tuple[list[OffsetKey], bool] | None:
    """Which offsets of the group are over, and whether those are all; None while nothing of it may expire."""
    committed = offsets.of_group(group.group_id)
    if not committed:
        return [], True
    idle_since = _idle_since(group)
    if idle_since is None:
        return None
    keys: list[OffsetKey] = []
    count = 0
    for topic, partitions in committed.items():
        count += len(partitions)
        over = [
            OffsetKey(group.group_id, topic, partition)
            for partition, value in partitions.items()
            if now_ms >= _end(value, idle_since, retention_ms)
        ]
        # Last, because it reads what each member said when it joined.
        if over and not groups.subscribes(group.group_id, topic):
            keys += over
    return keys, len(keys) == count


def _end(value: OffsetValue, idle_since: _IdleSince, retention_ms: int) -> TimestampMs:
    if value.expire_timestamp_ms != NO_TIMESTAMP_MS:
        return value.expire_timestamp_ms  # the client chose, by an old version
    return idle_since(value) + retention_ms


def _idle_since(group: Group) -> _IdleSince | None:
    """From when on the retention of an offset counts; None where it doesn't count yet."""
    if group.protocol_type is None:
        return _commit_timestamp  # nobody joins it: a commit is all that we see of its consumers
    if group.state is EMPTY:
        since = group.state_timestamp_ms
        return _commit_timestamp if since == NO_TIMESTAMP_MS else lambda _: since
    if group.state is STABLE and group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        return _commit_timestamp  # of topics that no member reads any more
    return None


def _commit_timestamp(value: OffsetValue) -> TimestampMs:
    return value.commit_timestamp_ms
