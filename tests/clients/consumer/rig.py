"""A whole consumer core on the fake network: a cluster of logs in memory and a coordinator with one group member.

Time moves only while the consumer waits. Every answer of the cluster can be replaced: `rig.network.serve(...)`.
"""

from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ottla.clients.assignors import GroupMemberView
from ottla.clients.config import ClientConfig
from ottla.clients.consumer.consumer import make_metadata
from ottla.clients.consumer.core import ConsumerCore
from ottla.clients.consumer.group_requests import read_members
from ottla.clients.consumer.keys import CONSUMER_DEFINITION
from ottla.clients.consumer.session import Session
from ottla.clients.consumer.values import ConsumerRecord
from ottla.clients.errors import ClientError
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.find_coordinator import FindCoordinatorResponse
from ottla.protocol.messages.heartbeat import HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.leave_group import LeaveGroupResponse
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from ottla.protocol.messages.sync_group import SyncGroupResponse
from ottla.records.build import build_batch
from tests.clients.fake_network import FakeNetwork, Sent

T = TypeVar("T")
MEMBER_ID = "member-1"


class FakeWaiting:
    """While the user's side waits, the fake network's clock moves."""

    def __init__(self, network: FakeNetwork) -> None:
        self._network = network
        self._is_set = False
        self.now_ms = network.now_ms

    def in_loop(self, callback: Callable[[], T]) -> T:
        return callback()

    def post(self, callback: Callable[[], None]) -> None:
        self._network.post(callback)

    def clear(self) -> None:
        self._is_set = False

    def wake(self) -> None:
        self._is_set = True

    async def wait(self, timeout_ms: int) -> None:
        for _ in range(timeout_ms):
            self._network.run()
            if self._is_set:
                return
            self._network.advance(1)

    def failure(self) -> ClientError | None:
        return None


class Rig:
    """`logs` has the values of each partition; `committed` the group's offsets; `codes` what to answer next."""

    def __init__(self, *, topics: dict[str, int] | None = None, brokers: int = 1, **settings: Any) -> None:
        self.network = FakeNetwork(brokers=brokers, topics={"t": 1} if topics is None else topics)
        self.logs: dict[TopicPartition, list[bytes]] = {}
        self.starts: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, tuple[int, str]] = {}
        self.codes: dict[int, deque[int]] = {}  # by API: error codes of the next answers
        self.generation_id = 0
        self.config = ClientConfig.parse(CONSUMER_DEFINITION, {"auto_offset_reset": "earliest", **settings})
        self.waiting = FakeWaiting(self.network)
        metadata = make_metadata(self.network, self.config)
        self.core = ConsumerCore(
            self.network,
            metadata,
            self.config,
            wall_ms=lambda: 1_700_000_000_000,
            hand_over=self.network.post,
            on_attention=self.waiting.wake,
        )
        self.session = Session(self.core, self.config, self.waiting)
        self.fetches: dict[int, Sent] = {}
        for api_key, handler in {
            ApiKey.FETCH: self._fetch,
            ApiKey.LIST_OFFSETS: self._list_offsets,
            ApiKey.FIND_COORDINATOR: lambda sent: FindCoordinatorResponse(
                error_code=self._code(sent), node_id=1, host="fake", port=9001
            ),
            ApiKey.JOIN_GROUP: self._join,
            ApiKey.SYNC_GROUP: self._sync,
            ApiKey.HEARTBEAT: lambda sent: HeartbeatResponse(error_code=self._code(sent)),
            ApiKey.LEAVE_GROUP: lambda sent: LeaveGroupResponse(),
            ApiKey.OFFSET_COMMIT: self._commit,
            ApiKey.OFFSET_FETCH: self._fetch_committed,
        }.items():
            self.network.serve(api_key, handler)

    # What a test does.

    def run(self, call: Coroutine[Any, None, T]) -> T:
        try:
            call.send(None)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        raise AssertionError("the session waited for something else than its waiting")

    def poll(self, timeout_ms: int = 200) -> list[ConsumerRecord]:
        return self.run(self.session.poll(timeout_ms))

    def values(self, timeout_ms: int = 200) -> list[bytes]:
        return [record.value for record in self.poll(timeout_ms)]

    def subscribe(self, *topics: str, listener: Any = None) -> None:
        self.run(self.session.subscribe(topics, listener))

    def fail_next(self, api_key: ApiKey, *codes: ErrorCode) -> None:
        self.codes.setdefault(api_key, deque()).extend(codes)

    def put(self, topic_partition: TopicPartition, *values: bytes) -> None:
        self.logs.setdefault(topic_partition, []).extend(values)

    def members(self) -> list[GroupMemberView]:
        """As the last join said it."""
        sent = self.network.of(ApiKey.JOIN_GROUP)[-1]
        return read_members([JoinGroupResponseMember(member_id="", metadata=sent.message.protocols[0].metadata)])

    # The cluster.

    def _code(self, sent: Sent) -> int:
        waiting = self.codes.get(sent.api_key)
        return int(waiting.popleft()) if waiting else 0

    def _fetch(self, sent: Sent) -> ApiMessage:
        session_topics = sent.message.topics
        code = self._code(sent)
        responses = []
        for topic in session_topics:
            partitions = []
            for asked in topic.partitions:
                topic_partition = TopicPartition(topic.topic, asked.partition)
                log, start = self.logs.get(topic_partition, []), self.starts.get(topic_partition, 0)
                if code:
                    partitions.append(PartitionData(partition_index=asked.partition, error_code=code))
                elif not start <= asked.fetch_offset <= len(log):
                    partitions.append(PartitionData(partition_index=asked.partition, error_code=1))
                else:
                    values = log[asked.fetch_offset :]
                    data = (
                        bytes(build_batch([(0, None, v, ()) for v in values], base_offset=asked.fetch_offset))
                        if values
                        else b""
                    )
                    partitions.append(
                        PartitionData(
                            partition_index=asked.partition,
                            high_watermark=len(log),
                            last_stable_offset=len(log),
                            log_start_offset=start,
                            records=data,
                        )
                    )
            responses.append(FetchableTopicResponse(topic=topic.topic, partitions=partitions))
        answer = FetchResponse(responses=responses)
        is_empty = all(not part.records and not part.error_code for topic in responses for part in topic.partitions)
        if is_empty:
            sent.answer(answer, after_ms=sent.message.max_wait_ms)
            return None  # type: ignore[return-value]
        return answer

    def _list_offsets(self, sent: Sent) -> ApiMessage:
        code = self._code(sent)
        topics = []
        for topic in sent.message.topics:
            partitions = []
            for asked in topic.partitions:
                topic_partition = TopicPartition(topic.name, asked.partition_index)
                end = len(self.logs.get(topic_partition, []))
                offset = (
                    self.starts.get(topic_partition, 0)
                    if asked.timestamp == -2
                    else end
                    if asked.timestamp == -1
                    else -1
                )
                partitions.append(
                    ListOffsetsPartitionResponse(
                        partition_index=topic_partition.partition, error_code=code, offset=offset
                    )
                )
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(topics=topics)

    def _join(self, sent: Sent) -> ApiMessage:
        code = self._code(sent)
        if code:
            member_id = MEMBER_ID if code == ErrorCode.MEMBER_ID_REQUIRED else ""
            return JoinGroupResponse(error_code=code, member_id=member_id)
        self.generation_id += 1
        protocol = sent.message.protocols[0]
        return JoinGroupResponse(
            generation_id=self.generation_id,
            protocol_name=protocol.name,
            leader=MEMBER_ID,
            member_id=MEMBER_ID,
            members=[JoinGroupResponseMember(member_id=MEMBER_ID, metadata=protocol.metadata)],
        )

    def _sync(self, sent: Sent) -> ApiMessage:
        code = self._code(sent)
        if code:
            return SyncGroupResponse(error_code=code)
        return SyncGroupResponse(assignment=sent.message.assignments[0].assignment)

    def _commit(self, sent: Sent) -> ApiMessage:
        code = self._code(sent)
        topics = []
        for topic in sent.message.topics:
            partitions = []
            for part in topic.partitions:
                if not code:
                    topic_partition = TopicPartition(topic.name, part.partition_index)
                    self.committed[topic_partition] = (part.committed_offset, part.committed_metadata or "")
                partitions.append(OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code))
            topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        return OffsetCommitResponse(topics=topics)

    def _fetch_committed(self, sent: Sent) -> ApiMessage:
        code = self._code(sent)
        topics = []
        for topic in sent.message.topics:
            partitions = []
            for number in topic.partition_indexes:
                offset, metadata = self.committed.get(TopicPartition(topic.name, number), (-1, ""))
                partitions.append(
                    OffsetFetchResponsePartition(partition_index=number, committed_offset=offset, metadata=metadata)
                )
            topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
        return OffsetFetchResponse(topics=topics, error_code=code)
