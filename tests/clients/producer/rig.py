"""A producer's core on a network without sockets, and a cluster behind it that keeps what it is sent.

The cluster judges sequences by the broker's own rules. Faults are given per request: `cluster.faults` is a queue of
what to do with the next Produce requests.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from ottla.clients.config import ClientConfig
from ottla.clients.errors import ClientError
from ottla.clients.producer.core import ProducerCore
from ottla.clients.producer.handle import SendHandle
from ottla.clients.producer.keys import PRODUCER_DEFINITION
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from ottla.records.header import BatchHeader, add_to_sequence
from ottla.records.read import Record, read_batch
from ottla.storage.producer_state import DuplicateBatch, ProducerState
from ottla.testing.simulated_disk import SimulatedDisk
from tests.clients.fake_network import FakeNetwork, Sent

# What a fault does with one Produce request: a code to refuse its batches with, or one of these.
LOSE_REQUEST = "the connection breaks before the broker reads it"
LOSE_ANSWER = "the connection breaks after the broker stored it"
HOLD = "no answer until the test gives one"


class Cluster:
    """The logs of all partitions, by the rules of a broker."""

    def __init__(self, network: FakeNetwork) -> None:
        self.network = network
        self.logs: dict[TopicPartition, list[Record]] = defaultdict(list)
        self.headers: dict[TopicPartition, list[BatchHeader]] = defaultdict(list)
        self.faults: deque[Any] = deque()
        self.max_message_bytes = 1 << 30
        self.next_producer_id = 1000
        self.append_time_ms = -1
        self._states: dict[TopicPartition, ProducerState] = {}
        network.serve(ApiKey.PRODUCE, self.produce)
        network.serve(ApiKey.INIT_PRODUCER_ID, self._init_producer_id)

    def produce(self, sent: Sent) -> ProduceResponse | ClientError | None:
        fault = self.faults.popleft() if self.faults else None
        if fault == HOLD:
            return None
        if fault == LOSE_REQUEST:
            return _broken(sent)
        answer = self.store(sent, refuse_with=fault if isinstance(fault, int) else ErrorCode.NONE)
        return _broken(sent) if fault == LOSE_ANSWER else answer

    def store(self, sent: Sent, *, refuse_with: int = ErrorCode.NONE) -> ProduceResponse:
        topics = []
        for topic in sent.message.topic_data:
            partitions = []
            for data in topic.partition_data:
                topic_partition = TopicPartition(topic.name, data.index)
                code, offset = (
                    (refuse_with, -1) if refuse_with else self._append(topic_partition, sent, bytes(data.records))
                )
                partitions.append(
                    PartitionProduceResponse(
                        index=data.index,
                        error_code=code,
                        base_offset=offset,
                        log_append_time_ms=self.append_time_ms,
                    )
                )
            topics.append(TopicProduceResponse(name=topic.name, partition_responses=partitions))
        return ProduceResponse(responses=topics)

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        return [record.value for record in self.logs[TopicPartition(topic, partition)]]

    def forget_producers(self, topic_partition: TopicPartition) -> None:
        self._states.pop(topic_partition)

    def _append(self, topic_partition: TopicPartition, sent: Sent, data: bytes) -> tuple[int, int]:
        if self.network.topics[topic_partition.topic][topic_partition.partition] != sent.node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        if len(data) > self.max_message_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        header, records = read_batch(data)
        log = self.logs[topic_partition]
        offset = len(log)
        if header.producer_id >= 0:
            state = self._states.get(topic_partition)
            if state is None:
                state = self._states[topic_partition] = ProducerState(SimulatedDisk(), "x", expiration_ms=1 << 60)
            last_sequence = add_to_sequence(header.base_sequence, header.record_count - 1)
            verdict = state.check(header.producer_id, header.producer_epoch, header.base_sequence, last_sequence)
            if isinstance(verdict, DuplicateBatch):
                return ErrorCode.NONE, verdict.first_offset
            if verdict is not None:
                return verdict, -1
            state.append(
                header.producer_id,
                header.producer_epoch,
                last_sequence,
                last_offset=offset + header.record_count - 1,
                offset_delta=header.record_count - 1,
                timestamp_ms=header.max_timestamp_ms,
            )
        log.extend(records)
        self.headers[topic_partition].append(header)
        return ErrorCode.NONE, offset

    def _init_producer_id(self, sent: Sent) -> InitProducerIdResponse:
        self.next_producer_id += 1
        return InitProducerIdResponse(producer_id=self.next_producer_id, producer_epoch=0)


def _broken(sent: Sent) -> ClientError:
    from ottla.clients.errors import ConnectionFailed

    return ConnectionFailed(f"broker {sent.node_id}: the connection was cut")


class Rig:
    """A core whose loop and users are the test."""

    def __init__(self, *, topics: dict[str, int] | None = None, brokers: int = 1, **keywords: Any) -> None:
        self.network = FakeNetwork(brokers=brokers, topics=topics or {"orders": 1})
        self.cluster = Cluster(self.network)
        keywords.setdefault("linger_ms", 0)
        self.core = ProducerCore(self.network, ClientConfig.parse(PRODUCER_DEFINITION, keywords))
        self.clock_ms = 1_700_000_000_000

    def send(
        self,
        value: bytes | None,
        *,
        topic: str = "orders",
        key: bytes | None = None,
        partition: int | None = None,
        headers: Any = (),
    ) -> SendHandle:
        """As a user's thread would; the client loop doesn't run meanwhile."""
        queues = self.core.accumulator.topics.get(topic) or self.learn(topic)
        handle = self.core.accumulator.append(queues, partition, key, value, headers, self.clock_ms)
        assert handle is not None, "no room"
        return handle

    def learn(self, topic: str) -> Any:
        known: list[Any] = []
        self.core.find_topic(topic, 1_000, known.append)
        self.network.advance(1_000 if topic not in self.network.topics else 0)
        if isinstance(known[0], ClientError):
            raise known[0]
        return known[0]

    def run(self) -> None:
        self.network.run()

    def advance(self, delay_ms: int) -> None:
        self.network.advance(delay_ms)

    def flush(self, within_ms: int = 200_000) -> None:
        """Until nothing is under way."""
        batches = self.core.accumulator.begin_flush()
        self.core.wake()
        for _ in range(within_ms // 50):
            if all(batch.is_done for batch in batches):
                break
            self.advance(50)
        self.core.accumulator.end_flush()
        assert all(batch.is_done for batch in batches), "still under way"

    def produce_requests(self) -> list[Sent]:
        return self.network.of(ApiKey.PRODUCE)

    def serve_by(self, answer: Callable[[Sent], Any]) -> None:
        self.network.serve(ApiKey.PRODUCE, answer)
