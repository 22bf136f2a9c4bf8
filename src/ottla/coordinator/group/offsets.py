"""Committed offsets of the groups of one shard: commit, look up, delete.

The state is what replaying the records gives: an offset is seen when its record is committed, not before. Who may
commit is the group's decision.
"""

from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from ottla.coordinator.group.groups import Groups
from ottla.coordinator.group.schemas import (
    OffsetKey,
    OffsetValue,
    encode_offset_key,
    encode_offset_value,
    encode_plain_offset_value,
)
from ottla.coordinator.runtime.ports import IF_LATE, NOTHING, KeyValue, Outcome
from ottla.core.clock import Clock
from ottla.core.errors import ErrorCode
from ottla.core.exchange import Deferred
from ottla.core.types import NO_TIMESTAMP_MS, LeaderEpoch, Offset, TimestampMs
from ottla.protocol.messages.offset_commit import OffsetCommitRequest
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.protocol.offset_commit_codec import CommitResults, CommitTopics

# By topic, then partition.
GroupOffsets: TypeAlias = dict[str, dict[int, OffsetValue]]
# Which partitions a topic has; nothing where there is no such topic.
PartitionsOf: TypeAlias = Callable[[str], Container[int]]

_NONE = int(ErrorCode.NONE)
_UNKNOWN_PARTITION = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_METADATA_TOO_LARGE = int(ErrorCode.OFFSET_METADATA_TOO_LARGE)
_DEFAULT_RETENTION = -1  # the request leaves it to the broker
_RECORD_STRING_BYTES_MAX = 32767
_UTF8_BYTES_MAX = 4
_new = tuple.__new__  # half the time of the named tuple's own
_NO_OFFSETS: Mapping[str, Mapping[int, OffsetValue]] = {}


class OffsetSettings(NamedTuple):
    """offset.metadata.max.bytes, in characters as in Kafka; offsets.retention.minutes."""

    metadata_size_max: int
    retention_ms: int


class Offsets:
    """Part of a shard; event loop only, but for the replay while loading."""

    __slots__ = ("_by_group", "_clock", "_groups", "_in_flight", "_settings")

    def __init__(self, groups: Groups, *, settings: Callable[[], OffsetSettings], clock: Clock) -> None:
        self._groups = groups
        self._settings = settings
        self._clock = clock
        self._by_group: dict[str, GroupOffsets] = {}
        self._in_flight: dict[_Commit | CommitOfOne, None] = {}  # appended and not committed yet; in their order

    # Reading

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, OffsetValue]]:
        """All that the group has committed, by topic and partition."""
        return self._by_group.get(group_id, _NO_OFFSETS)

    def has_any(self, group_id: str) -> bool:
        return group_id in self._by_group

    def group_ids(self) -> Collection[str]:
        return self._by_group.keys()

    def topics(self) -> set[str]:
        """Those that any group has committed to."""
        return {topic for offsets in self._by_group.values() for topic in offsets}

    def group_ids_in_flight(self) -> set[str]:
        """Groups with commits that are in the log and not in the state yet."""
        return {key.group_id for commit in self._in_flight for key, _ in commit.entries}

    def __len__(self) -> int:
        return sum(len(partitions) for topics in self._by_group.values() for partitions in topics.values())

    # Committing

    def commit(
        self,
        request: OffsetCommitRequest,
        *,
        version: int,
        partitions_of: PartitionsOf,
        answer: Callable[[CommitResults], None],
    ) -> Outcome:
        refusal = self._groups.check_commit(
            request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id_or_member_epoch,
            version=version,
        )
        topics: CommitTopics = [
            (
                topic.name,
                [
                    (
                        wanted.partition_index,
                        wanted.committed_offset,
                        wanted.committed_leader_epoch,
                        wanted.committed_metadata or "",
                    )
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return self.commit_topics(
            request.group_id,
            topics,
            refusal=refusal,
            retention_ms=request.retention_time_ms,
            partitions_of=partitions_of,
            answer=answer,
        )

    def commit_topics(
        self,
        group_id: str,
        topics: CommitTopics,
        *,
        refusal: int = _NONE,
        retention_ms: int = _DEFAULT_RETENTION,
        partitions_of: PartitionsOf,
        answer: Callable[[CommitResults], None],
    ) -> Outcome:
        """`refusal` is the group's answer; a partition that does not exist is reported before that, as in Kafka."""
        metadata_size_max = self._settings().metadata_size_max
        now_ms = self._clock()
        expire_ms = NO_TIMESTAMP_MS if retention_ms == _DEFAULT_RETENTION else now_ms + retention_ms
        results: CommitResults = []
        entries: list[tuple[OffsetKey, OffsetValue]] = []
        records: list[KeyValue] = []
        for topic, partitions in topics:
            known = partitions_of(topic)
            errors: list[tuple[int, int]] = []
            results.append((topic, errors))
            for partition, offset, leader_epoch, metadata in partitions:
                if partition not in known:
                    error_code = _UNKNOWN_PARTITION
                elif refusal:
                    error_code = int(refusal)
                elif metadata and _is_too_large(metadata, metadata_size_max):
                    error_code = _METADATA_TOO_LARGE
                else:
                    error_code = _NONE
                    key = _new(OffsetKey, (group_id, topic, partition))
                    value = _new(OffsetValue, (offset, leader_epoch, metadata, now_ms, expire_ms))
                    entries.append((key, value))
                    records.append((encode_offset_key(key), encode_offset_value(value)))
                errors.append((partition, error_code))
        if not entries:
            answer(results)
            return NOTHING
        commit = _Commit(self, entries, results, answer)
        self._in_flight[commit] = None
        # The values are known when the commit is done: no need to decode the records to replay them.
        return Outcome(records, commit.on_done, IF_LATE)

    def _settle(self, commit: "_Commit", error_code: ErrorCode) -> None:
        """The records of a commit are committed, or never will be."""
        del self._in_flight[commit]
        if error_code == _NONE:
            for key, value in commit.entries:
                self._put(key, value)

    # Deleting

    def delete(
        self,
        request: OffsetDeleteRequest,
        *,
        partitions_of: PartitionsOf,
        answer: Callable[[OffsetDeleteResponse], None],
    ) -> Outcome:
        group_id = request.group_id
        refusal = self._groups.check_offset_delete(group_id)
        if refusal != ErrorCode.NONE:
            answer(OffsetDeleteResponse(error_code=refusal))
            return NOTHING
        response = OffsetDeleteResponse()
        records: list[KeyValue] = []
        offsets = self.of_group(group_id)
        for topic in request.topics:
            known = partitions_of(topic.name)
            committed = offsets.get(topic.name, {})
            is_subscribed = self._groups.subscribes(group_id, topic.name)
            result = OffsetDeleteResponseTopic(name=topic.name)
            response.topics.append(result)
            for wanted in topic.partitions:
                partition = wanted.partition_index
                error_code = ErrorCode.NONE
                if partition not in known:
                    error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif is_subscribed:
                    error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                elif partition in committed:
                    records.append(_tombstone(group_id, topic.name, partition))
                result.partitions.append(
                    OffsetDeleteResponsePartition(partition_index=partition, error_code=error_code)
                )

        def on_done(error_code: ErrorCode) -> None:
            answer(response if error_code == ErrorCode.NONE else OffsetDeleteResponse(error_code=error_code))

        return Outcome(records, on_done)

    def tombstones_of_group(self, group_id: str) -> Iterator[KeyValue]:
        """Of everything that the group has committed, or is about to."""
        keys = {
            OffsetKey(group_id, topic, partition): None
            for topic, partitions in self.of_group(group_id).items()
            for partition in partitions
        }
        for commit in self._in_flight:
            keys.update((key, None) for key, _ in commit.entries if key.group_id == group_id)
        return ((encode_offset_key(key), None) for key in keys)

    def tombstones_of_topics(self, topics: Collection[str]) -> list[KeyValue]:
        """Of everything that any group has committed to them, or is about to."""
        keys = {
            OffsetKey(group_id, topic, partition): None
            for group_id, offsets in self._by_group.items()
            for topic in topics
            for partition in offsets.get(topic, ())
        }
        for commit in self._in_flight:
            keys.update((key, None) for key, _ in commit.entries if key.topic in topics)
        return [(encode_offset_key(key), None) for key in keys]

    # Records

    def replay(self, key: OffsetKey, value: OffsetValue | None) -> None:
        if value is not None:
            self._put(key, value)
            return
        group_id, topic, partition = key
        offsets = self._by_group.get(group_id)
        if offsets is None or topic not in offsets:
            return
        partitions = offsets[topic]
        partitions.pop(partition, None)
        if not partitions:
            del offsets[topic]
            if not offsets:
                del self._by_group[group_id]

    def _put(self, key: OffsetKey, value: OffsetValue) -> None:
        group_id, topic, partition = key
        offsets = self._by_group.get(group_id)
        if offsets is None:
            # A consumer that never joins has a group all the same: it is listed, expires and can be deleted.
            self._groups.ensure_simple_group(group_id)
            offsets = self._by_group[group_id] = {}
        partitions = offsets.get(topic)
        if partitions is None:
            partitions = offsets[topic] = {}
        partitions[partition] = value

    def live_records(self) -> Iterator[KeyValue]:
        """Requests may come between two steps: what is gone by then is left out, values are those of the moment."""
        for group_id in list(self._by_group):
            for topic in list(self._by_group.get(group_id, ())):
                for partition in list(self._by_group.get(group_id, {}).get(topic, ())):
                    value = self._by_group.get(group_id, {}).get(topic, {}).get(partition)
                    if value is not None:
                        yield encode_offset_key(OffsetKey(group_id, topic, partition)), encode_offset_value(value)


class _Commit:
    """Between its append and its answer: any number of partitions, some of which may be refused already."""

    __slots__ = ("_answer", "_offsets", "_results", "entries")

    def __init__(
        self,
        offsets: Offsets,
        entries: list[tuple[OffsetKey, OffsetValue]],
        results: CommitResults,
        answer: Callable[[CommitResults], None],
    ) -> None:
        self._offsets = offsets
        self.entries = entries
        self._results = results
        self._answer = answer

    def on_done(self, error_code: ErrorCode) -> None:
        self._offsets._settle(self, error_code)
        if error_code != _NONE:
            for _, errors in self._results:
                errors[:] = [(partition, error or int(error_code)) for partition, error in errors]
        self._answer(self._results)


class SinglePartition(Protocol):
    """The only partition that a member commits, with what all its commits have in common."""

    @property
    def key(self) -> OffsetKey: ...

    @property
    def encoded_key(self) -> bytes: ...

    def pack_answer(self, correlation_id: int, error_code: ErrorCode) -> bytes: ...


class CommitOfOne(Deferred):
    """What most consumers do most of the time: one partition without metadata. The caller has checked all the rest.

    It comes in floods, so one object is all there is of it: its outcome, its entry among those in flight, and its
    deferred answer.
    """

    __slots__ = ("_correlation_id", "_offsets", "_partition", "records", "value")

    replay = IF_LATE

    def __init__(
        self,
        offsets: Offsets,
        partition: SinglePartition,
        correlation_id: int,
        offset: Offset,
        leader_epoch: LeaderEpoch,
        now_ms: TimestampMs,
    ) -> None:
        # Without a call of the base's: there is no cheaper way to say the same.
        self.holds = True
        self.is_complete = False
        self.answer = self.failure = self.on_complete = self.on_abandon = None
        self._offsets = offsets
        self._partition = partition
        self._correlation_id = correlation_id
        self.value: OffsetValue = _new(OffsetValue, (offset, leader_epoch, "", now_ms, NO_TIMESTAMP_MS))
        self.records = ((partition.encoded_key, encode_plain_offset_value(offset, leader_epoch, now_ms)),)
        offsets._in_flight[self] = None

    @property
    def entries(self) -> Sequence[tuple[OffsetKey, OffsetValue]]:
        return ((self._partition.key, self.value),)

    def on_done(self, error_code: ErrorCode) -> None:
        offsets = self._offsets
        partition = self._partition
        del offsets._in_flight[self]
        if not error_code:
            offsets._put(partition.key, self.value)
        self.complete(partition.pack_answer(self._correlation_id, error_code))


def _is_too_large(metadata: str, size_max: int) -> bool:
    size = len(metadata)
    if size > size_max:
        return True
    # A record has two bytes for the length, whatever the setting says.
    return size * _UTF8_BYTES_MAX > _RECORD_STRING_BYTES_MAX and len(metadata.encode()) > _RECORD_STRING_BYTES_MAX


def _tombstone(group_id: str, topic: str, partition: int) -> KeyValue:
    return encode_offset_key(OffsetKey(group_id, topic, partition)), None
