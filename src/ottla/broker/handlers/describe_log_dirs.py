"""DescribeLogDirs 1-4: each log directory with the sizes of the partitions in it and the space on its volume.

A directory that failed has error 56 and nothing else. Sizes are those of the segments, as the logs know them; the space
is asked of the file system on a thread. Version 0 has gone from Kafka too; no partition is ever on its way between
directories here, so none is a "future" one.
"""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from os.path import abspath

from ottla.broker.api import Reply, RequestContext
from ottla.core.clock import Background
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.replication.replicas import Replicas
from ottla.storage.log import Log
from ottla.storage.log_manager import LogManager

_SPACE_SINCE = 4


class DescribeLogDirsHandler:
    def __init__(self, log_manager: LogManager, replicas: Replicas, background: Background) -> None:
        self._log_manager = log_manager
        self._replicas = replicas
        self._background = background

    def handle(self, request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse | Reply:
        wanted = _wanted_partitions(request)
        results = [
            DescribeLogDirsResult(log_dir=abspath(directory), topics=self._topics_in(directory, wanted))
            for directory in self._log_manager.online_directories
        ]
        offline = [
            DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=abspath(directory))
            for directory in self._log_manager.offline_directories
        ]
        response = DescribeLogDirsResponse(results=results + offline)
        if context.version < _SPACE_SINCE or not results:
            return response
        reply = context.defer()

        def on_measured(_: object, error: BaseException | None) -> None:
            if error is not None:
                raise error
            reply.send(response)

        self._background.submit(lambda: _measure(results, self._log_manager), on_measured)
        return reply

    def _topics_in(self, directory: str, wanted: set[TopicPartition] | None) -> list[DescribeLogDirsTopic]:
        by_topic: defaultdict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
        for topic_partition, log in self._log_manager.logs_in(directory):
            if wanted is None or topic_partition in wanted:
                by_topic[topic_partition.topic].append(
                    DescribeLogDirsPartition(
                        partition_index=topic_partition.partition,
                        partition_size=log.size_bytes,
                        offset_lag=self._lag_of(topic_partition, log),
                    )
                )
        return [DescribeLogDirsTopic(name=name, partitions=entries) for name, entries in sorted(by_topic.items())]

    def _lag_of(self, topic_partition: TopicPartition, log: Log) -> int:
        """How far the log's end is behind what is committed; -1 when that isn't known here."""
        partition = self._replicas.partitions.get(topic_partition)
        return -1 if partition is None else max(0, partition.high_watermark - log.log_end_offset)


def _wanted_partitions(request: DescribeLogDirsRequest) -> set[TopicPartition] | None:
    if request.topics is None:
        return None
    return {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}


def _measure(results: Iterable[DescribeLogDirsResult], log_manager: LogManager) -> None:
    for result in results:
        # It stays -1, unknown: a directory that fails is found by the logs that write to it.
        with suppress(OSError):
            result.total_bytes, result.usable_bytes = log_manager.volume_space(result.log_dir)
