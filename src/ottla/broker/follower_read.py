"""Reads what a follower's fetch has to answer: only partitions with news, up to the end of their logs.

Made once per fetch and called again each time that a waiting fetch is tried; it holds no records.
"""

from ottla.broker.follower_session import FollowedPartition, FollowerSession
from ottla.core.disk import FileSlice
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.types import BrokerEpoch, BrokerId
from ottla.protocol.fetch_codec import EpochEndOffset, FetchedPartition, FetchPartition
from ottla.replication.follower_fetches import SessionKey
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.storage.leader_epochs import UNDEFINED_EPOCH_OFFSET

_NONE = b""


class FollowerResult:
    """What one read found that the follower has to hear of."""

    __slots__ = ("is_enough", "partitions")

    def __init__(self, partitions: list[tuple[SessionKey, FetchedPartition, int]], *, is_enough: bool) -> None:
        self.partitions = partitions  # key, answer, bytes of records
        self.is_enough = is_enough


class FollowerRead:
    """What one fetch of a follower wants."""

    __slots__ = ("_is_full", "_max_bytes", "_min_bytes", "_replicas", "_session")

    def __init__(
        self, replicas: Replicas, session: FollowerSession, *, min_bytes: int, max_bytes: int, is_full: bool
    ) -> None:
        self._replicas = replicas
        self._session = session
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._is_full = is_full  # all that was named is answered, news or not

    def __call__(self) -> FollowerResult:
        """Read the partitions with news, until the answer is full; what has none in truth is no longer among them."""
        session = self._session
        news = session.news
        replica_id = session.fetches.broker_id
        bytes_left = self._max_bytes
        bytes_read = 0
        is_enough = self._is_full and not news
        results: list[tuple[SessionKey, FetchedPartition, int]] = []
        for key in tuple(news):
            followed = session.partitions.get(key)
            if followed is None:
                del news[key]
                continue
            if bytes_left <= 0 and not self._is_full:
                break
            partition = find_for_follower(self._replicas, key, followed.wanted, replica_id)
            fetched, size_bytes = self._read_one(partition, followed, bytes_left, is_first=bytes_read == 0)
            bytes_read += size_bytes
            bytes_left = max(bytes_left - size_bytes, 0)
            is_news = followed.is_news(fetched)
            if size_bytes or is_news or self._is_full:
                results.append((key, fetched, size_bytes))
                is_enough = is_enough or is_news
            elif fetched.error_code == 0 and _is_at_end(partition, followed.wanted):
                del news[key]
        return FollowerResult(results, is_enough=is_enough or bytes_read >= self._min_bytes)

    def remember(self, result: FollowerResult) -> None:
        """The follower is sent `result`. Who gave records goes behind the others, so that all get a turn.

        It stays among the news until the follower names it with a new offset; one with an error until that is gone.
        """
        session = self._session
        news = session.news
        for key, fetched, size_bytes in result.partitions:
            followed = session.partitions.get(key)
            if followed is None:
                continue
            followed.remember(fetched)
            if key in news:
                del news[key]
            partition = partition_of(self._replicas, key)
            if size_bytes or not followed.is_served or not _is_at_end(partition, followed.wanted):
                news[key] = None

    def _read_one(
        self, partition: Partition | ErrorCode, followed: FollowedPartition, bytes_left: int, *, is_first: bool
    ) -> tuple[FetchedPartition, int]:
        wanted = followed.wanted
        number = wanted.partition
        if isinstance(partition, ErrorCode):
            return FetchedPartition(number, partition, -1, records=_NONE), 0
        diverging = diverging_epoch_of(partition, wanted)
        if isinstance(diverging, ErrorCode):
            return _answered(partition, diverging), 0
        if diverging is not None:
            return _answered(partition, ErrorCode.NONE, diverging), 0
        try:
            read = partition.log.read(
                wanted.fetch_offset, max_bytes=min(bytes_left, wanted.partition_max_bytes), at_least_one=is_first
            )
        except StorageError as error:
            if error.is_out_of_descriptors:
                return _answered(partition, ErrorCode.NONE), 0  # the slices of this answer hold them
            self._replicas.on_storage_error(partition, error)
            return FetchedPartition(number, ErrorCode.KAFKA_STORAGE_ERROR, -1, records=_NONE), 0
        if read.slice is None:
            return _answered(partition, read.error_code), 0
        return _answered(partition, ErrorCode.NONE, records=read.slice), read.slice.length


def partition_of(replicas: Replicas, key: SessionKey) -> Partition | None:
    """The replica of this broker, whoever leads."""
    name = replicas.topic_names.get(key[0])
    return None if name is None else replicas.partitions.get((name, key[1]))


def find_for_follower(
    replicas: Replicas, key: SessionKey, wanted: FetchPartition, replica_id: BrokerId
) -> Partition | ErrorCode:
    """The partition, if this broker leads it in the epoch that the follower knows, with it as a replica."""
    topic_id, number = key
    # Not by the metadata cache: the controller sends replicas their state before it tells all brokers of a topic.
    name = replicas.topic_names.get(topic_id)
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    found = replicas.find(name, number)
    if isinstance(found, Partition) and found.topic_id != topic_id:
        return ErrorCode.INCONSISTENT_TOPIC_ID
    if isinstance(found, ErrorCode):
        return found
    error_code = found.check_leader_epoch(wanted.current_leader_epoch)
    if error_code:
        return error_code
    if replica_id not in found.followers:
        # With an epoch it knows more than we do (as in Kafka): it was assigned, and we will hear of it.
        return ErrorCode.REPLICA_NOT_AVAILABLE if wanted.current_leader_epoch < 0 else ErrorCode.UNKNOWN_LEADER_EPOCH
    return found


def diverging_epoch_of(partition: Partition, wanted: FetchPartition) -> EpochEndOffset | ErrorCode | None:
    """Where the follower's log leaves ours, if it does: it has records of an epoch that ended before them here."""
    if wanted.fetch_offset < partition.log.log_start_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    epoch = wanted.last_fetched_epoch
    if epoch < 0:
        return None
    found_epoch, end_offset = partition.end_of_epoch(epoch)
    if end_offset == UNDEFINED_EPOCH_OFFSET:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if found_epoch < epoch or end_offset < wanted.fetch_offset:
        return EpochEndOffset(found_epoch, end_offset)
    return None


def note_progress(
    replicas: Replicas, session: FollowerSession, key: SessionKey, *, broker_epoch: BrokerEpoch, now_ms: int
) -> None:
    """Take in what a follower says by naming a partition, if its log is a part of ours.

    Not without a leader epoch: what it says could be of any. Not where its log diverges or leaves ours: it has not got
    what its offset says.
    """
    followed = session.partitions.get(key)
    if followed is None or followed.wanted.current_leader_epoch < 0:
        return
    wanted = followed.wanted
    replica_id = session.fetches.broker_id
    partition = find_for_follower(replicas, key, wanted, replica_id)
    if (
        isinstance(partition, ErrorCode)
        or wanted.fetch_offset > partition.log.log_end_offset
        or diverging_epoch_of(partition, wanted) is not None
    ):
        return
    partition.on_follower_fetch(
        replica_id,
        broker_epoch=broker_epoch,
        fetch_offset=wanted.fetch_offset,
        durable_offset=wanted.durable_offset,
        log_start_offset=wanted.log_start_offset,
        now_ms=now_ms,
        fetches=session.fetches,
    )


def _is_at_end(partition: Partition | ErrorCode | None, wanted: FetchPartition) -> bool:
    return isinstance(partition, Partition) and wanted.fetch_offset >= partition.log.log_end_offset


def _answered(
    partition: Partition,
    error_code: ErrorCode,
    diverging_epoch: EpochEndOffset | None = None,
    *,
    records: bytes | FileSlice = _NONE,
) -> FetchedPartition:
    return FetchedPartition(
        partition.topic_partition.partition,
        error_code,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log.log_start_offset,
        records=records,
        diverging_epoch=diverging_epoch,
    )
