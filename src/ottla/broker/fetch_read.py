"""Reads the partitions of one fetch: file slices up to the high watermark, within the limits of the request.

Made once per fetch request and called again each time a waiting fetch is tried; it holds what is wanted, never records.
"""

from ottla.broker.fetch_sessions import TopicKey
from ottla.broker.metadata_cache import MetadataCache
from ottla.core.disk import FileSlice
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.types import TopicPartition
from ottla.protocol.fetch_codec import FetchedPartition, FetchPartition
from ottla.records.compression import ZSTD
from ottla.records.errors import CorruptBatch
from ottla.records.header import iter_headers
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas

FIRST_VERSION_WITH_ZSTD = 10
_READ_COMMITTED = 1
_NONE = b""
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class FetchResult:
    """The result of one read, in the order of the request."""

    __slots__ = ("has_unknown", "is_enough", "partitions")

    def __init__(
        self, partitions: list[tuple[TopicKey, FetchedPartition, int]], *, is_enough: bool, has_unknown: bool
    ) -> None:
        self.partitions = partitions  # topic, answer, bytes of records
        self.is_enough = is_enough
        self.has_unknown = has_unknown  # a partition that doesn't exist


class FetchRead:
    """What one fetch request wants."""

    __slots__ = (
        "_cache",
        "_is_committed",
        "_max_bytes",
        "_min_bytes",
        "_replicas",
        "_version",
        "_wanted",
    )

    def __init__(
        self,
        replicas: Replicas,
        cache: MetadataCache,
        wanted: list[tuple[TopicKey, FetchPartition]],
        *,
        version: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
    ) -> None:
        self._replicas = replicas
        self._cache = cache
        self._wanted = wanted
        self._version = version
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._is_committed = isolation_level == _READ_COMMITTED

    def keys(self) -> list[TopicPartition]:
        """The partitions to wait for; those that don't exist give an error at once and are never waited for."""
        named = ((self._name_of(topic), wanted.partition) for topic, wanted in self._wanted)
        return [TopicPartition(name, number) for name, number in named if name is not None]

    def __call__(self) -> FetchResult:
        """Read every partition once."""
        bytes_left = self._max_bytes
        bytes_read = 0
        has_error = has_unknown = False
        results: list[tuple[TopicKey, FetchedPartition, int]] = []
        for topic, wanted in self._wanted:
            fetched, size_bytes = self._read_one(topic, wanted, bytes_left, is_first=bytes_read == 0)
            results.append((topic, fetched, size_bytes))
            bytes_read += size_bytes
            bytes_left = max(bytes_left - size_bytes, 0)
            if fetched.error_code:
                has_error = True
                has_unknown = has_unknown or fetched.error_code in _UNKNOWN
        is_enough = has_error or bytes_read >= self._min_bytes or not self._wanted
        if not is_enough and bytes_read:
            is_enough = self._ends_at_a_later_segment(results)
        return FetchResult(results, is_enough=is_enough, has_unknown=has_unknown)

    def _ends_at_a_later_segment(self, results: list[tuple[TopicKey, FetchedPartition, int]]) -> bool:
        """Whether a read stopped where its segment ends although the consumer may see more behind it.

        A read never crosses segments, so waiting could not add to this one: the next fetch goes on (as in Kafka).
        """
        for (topic, wanted), (_, fetched, size_bytes) in zip(self._wanted, results, strict=True):
            if size_bytes:
                partition = self._find(topic, wanted.partition)
                if (
                    isinstance(partition, Partition)
                    and partition.log.next_segment_offset(wanted.fetch_offset) < fetched.high_watermark
                ):
                    return True
        return False

    def _name_of(self, topic: TopicKey) -> str | None:
        return topic if isinstance(topic, str) else self._cache.name_of(topic)

    def _read_one(
        self, topic: TopicKey, wanted: FetchPartition, bytes_left: int, *, is_first: bool
    ) -> tuple[FetchedPartition, int]:
        number = wanted.partition
        partition = self._find(topic, number)
        if isinstance(partition, ErrorCode):
            return _failed(number, partition), 0
        error_code = partition.check_leader_epoch(wanted.current_leader_epoch)
        if error_code:
            return _failed(number, error_code), 0
        try:
            read = partition.read(
                wanted.fetch_offset, max_bytes=min(bytes_left, wanted.partition_max_bytes), at_least_one=is_first
            )
            if read.error_code:
                return _failed(number, read.error_code, partition), 0
            records = read.slice
            if records is not None and self._version < FIRST_VERSION_WITH_ZSTD:
                records = _before_zstd(records)
                if records is not None and records.length == 0:
                    return _failed(number, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, partition), 0
        except StorageError as error:
            if error.is_out_of_descriptors:
                # The slices of this answer hold them: it is as full as it can be, and the next one begins with this.
                return _fetched(partition, _NONE, is_committed=self._is_committed), 0
            self._replicas.on_storage_error(partition, error)
            return _failed(number, ErrorCode.KAFKA_STORAGE_ERROR), 0
        fetched = _fetched(partition, _NONE if records is None else records, is_committed=self._is_committed)
        return fetched, 0 if records is None else records.length

    def _find(self, topic: TopicKey, number: int) -> Partition | ErrorCode:
        if isinstance(topic, str):
            name = topic
        else:
            found = self._cache.name_of(topic)
            if found is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            name = found
        return self._replicas.find(name, number)


def _fetched(partition: Partition, records: bytes | FileSlice, *, is_committed: bool) -> FetchedPartition:
    return FetchedPartition(
        partition.topic_partition.partition,
        0,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log.log_start_offset,
        () if is_committed else None,
        -1,
        records,
    )


def _failed(number: int, error_code: ErrorCode, partition: Partition | None = None) -> FetchedPartition:
    if partition is None:
        return FetchedPartition(number, error_code, -1, records=_NONE)
    return FetchedPartition(
        number,
        error_code,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log.log_start_offset,
        records=_NONE,
    )


def _before_zstd(records: FileSlice) -> FileSlice:
    """The batches before the first one in zstd, which clients of that age can't read."""
    try:
        data = records.file.pread(records.length, records.position)
    except OSError as error:
        raise StorageError(f"read of {records.length} bytes at {records.position} failed: {error}") from error
    try:
        for position, header in iter_headers(memoryview(data), allow_partial_tail=True):
            if header.compression == ZSTD:
                return records._replace(length=position)
    except CorruptBatch:
        pass  # rotten on disk: the reader finds that as it would with any other version
    return records
