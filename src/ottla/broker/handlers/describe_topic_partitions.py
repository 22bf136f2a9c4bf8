"""DescribeTopicPartitions 0: topics with their partitions in the order of their names, a page at a time.

A page ends after `response_partition_limit` partitions, at most `max.request.partition.size.limit`; its cursor says
where the next one begins.
"""

from collections.abc import Iterable

from ottla.broker.api import RequestContext
from ottla.broker.handlers.authorized_operations import ALL_TOPIC_OPERATIONS
from ottla.broker.metadata_cache import MetadataCache
from ottla.controller.topic_names import problem_with
from ottla.core.cluster import INTERNAL_TOPICS, NO_LEADER, TopicImage
from ottla.core.errors import ErrorCode
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import encode_struct
from ottla.protocol.message import EncodedStruct
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

_START = Cursor(topic_name="", partition_index=0)


class DescribeTopicPartitionsHandler:
    def __init__(self, cache: MetadataCache, *, partitions_max: int) -> None:
        self._cache = cache
        self._partitions_max = partitions_max

    def handle(
        self, request: DescribeTopicPartitionsRequest, context: RequestContext
    ) -> DescribeTopicPartitionsResponse:
        cursor = request.cursor or _START
        wanted = {topic.name for topic in request.topics}
        if cursor.partition_index < 0 or (wanted and request.cursor is not None and cursor.topic_name not in wanted):
            # The cursor lies outside of the topics that were named: each is refused, as the answer has no other place.
            refused = [
                DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name)
                for name in sorted(wanted)
            ]
            return DescribeTopicPartitionsResponse(topics=refused)
        names = sorted(name for name in (wanted or self._cache.topics) if name >= cursor.topic_name)
        limit = max(1, min(request.response_partition_limit, self._partitions_max))
        return self._page(names, cursor, limit)

    def _page(self, names: Iterable[str], cursor: Cursor, limit: int) -> DescribeTopicPartitionsResponse:
        response = DescribeTopicPartitionsResponse()
        page: list[DescribeTopicPartitionsResponseTopic | EncodedStruct] = response.topics  # type: ignore[assignment]
        encoded = self._cache.encoded_topics(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
        room = limit
        for name in names:
            if room == 0:
                response.next_cursor = Cursor(topic_name=name, partition_index=0)
                break
            image = self._cache.topics.get(name)
            if image is None:
                illegal = problem_with(name) is not None
                error = ErrorCode.INVALID_TOPIC_EXCEPTION if illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                page.append(DescribeTopicPartitionsResponseTopic(error_code=error, name=name))
                continue
            first = cursor.partition_index if name == cursor.topic_name else 0
            count = len(image.partitions)
            if first > 0 or count > room:
                page.append(self._describe(image, range(first, min(count, first + room))))
                if first + room < count:
                    response.next_cursor = Cursor(topic_name=name, partition_index=first + room)
                    break
                room -= max(0, count - first)
                continue
            whole = encoded.get(name)
            if whole is None:
                topic = self._describe(image, range(count))
                whole = encoded[name] = encode_struct(topic, 0, within=DescribeTopicPartitionsResponse)
            page.append(whole)
            room -= count
        return response

    def _describe(self, image: TopicImage, indexes: range) -> DescribeTopicPartitionsResponseTopic:
        live = self._cache.brokers
        partitions = []
        for index in indexes:
            state = image.partitions[index]
            partitions.append(
                DescribeTopicPartitionsResponsePartition(
                    error_code=ErrorCode.NONE if state.leader in live else ErrorCode.LEADER_NOT_AVAILABLE,
                    partition_index=index,
                    leader_id=state.leader if state.leader in live else NO_LEADER,
                    leader_epoch=state.leader_epoch,
                    replica_nodes=list(state.replicas),
                    isr_nodes=list(state.isr),
                    eligible_leader_replicas=[],
                    last_known_elr=[],
                    offline_replicas=[broker_id for broker_id in state.replicas if broker_id not in live],
                )
            )
        return DescribeTopicPartitionsResponseTopic(
            name=image.name,
            topic_id=image.topic_id,
            is_internal=image.name in INTERNAL_TOPICS,
            partitions=partitions,
            topic_authorized_operations=ALL_TOPIC_OPERATIONS,
        )
