"""kafka-python behind the scenarios' port. aiokafka has its names for much, and takes over what is the same."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import (
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RetriableError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import OffsetAndMetadata

from tests.processes import eventually
from tests.scenarios.java_named import JavaNamedReader
from tests.scenarios.messages import Message
from tests.scenarios.port import (
    HEARTBEAT_INTERVAL_MS,
    JOINING,
    POLL_MS,
    READING,
    SESSION_TIMEOUT_MS,
    WRITING,
    Ability,
    Committed,
    Diary,
    Failure,
    Joining,
    Raises,
    Reading,
    Received,
    Writing,
)

APPEND_TIME = 1
WAIT_S = 60.0
# A poll that ends while its consumer joins loses the assignment for good (seen with kafka-python 3.0.12): long enough.
MEMBER_POLL_MS = 1000
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


def received(record: Any) -> Received:
    """Of this client and of aiokafka."""
    message = Message(record.key, record.value, tuple(map(tuple, record.headers)), record.timestamp)
    return Received(record.partition, record.offset, message, record.timestamp_type == APPEND_TIME)


class KafkaPythonWriter:
    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def send(self, topic: str, messages: Sequence[Message], *, partition: int | None = 0) -> list[tuple[int, int]]:
        futures = [
            self._producer.send(
                topic,
                key=message.key,
                value=message.value,
                headers=list(message.headers),
                partition=partition,
                timestamp_ms=message.timestamp_ms,
            )
            for message in messages
        ]
        self._producer.flush(WAIT_S)
        stored = [future.get(WAIT_S) for future in futures]
        return [(each.partition, each.offset) for each in stored]

    def close(self) -> None:
        self._producer.close(timeout=10)


class KafkaPythonReader(JavaNamedReader):
    """aiokafka's differs in the tuples that it takes, and little else."""

    partition_type = TopicPartition
    offset_type = OffsetAndMetadata

    def poll(self, at_most: int = 500) -> list[Received]:
        polled = self._consumer.poll(timeout_ms=POLL_MS, max_records=at_most)
        return [received(record) for records in polled.values() for record in records]

    def committed(self, partition: int) -> Committed | None:
        found = self._consumer.committed(self._at(partition), metadata=True)
        return None if found is None or found.offset < 0 else Committed(found.offset, found.metadata)


class KafkaPythonMember(Diary, ConsumerRebalanceListener):  # type: ignore[misc]
    """Its consumer is polled in a thread of its own; what else is asked of it is done there between two polls."""

    def __init__(self, consumer: Any, address: str, topic: str, group: str) -> None:
        super().__init__()
        self._address, self._topic, self._group = address, topic, group
        self.partitions: set[int] = set()
        self._consumer = consumer
        self._waiting: list[Received] = []
        self._wanted: list[Any] = []
        self._error: Exception | None = None
        self._is_closed = threading.Event()
        consumer.subscribe([topic], listener=self)
        self._thread = threading.Thread(target=self._live)
        self._thread.start()

    def _live(self) -> None:
        try:
            while not self._is_closed.is_set():
                try:
                    polled = self._consumer.poll(timeout_ms=MEMBER_POLL_MS)
                except (RetriableError, OSError):
                    continue  # the broker is away; it goes on when it is polled again
                self._waiting += [received(record) for records in polled.values() for record in records]
                self.partitions = {place.partition for place in self._consumer.assignment()}
                while self._wanted:
                    self._wanted.pop()()
            self._consumer.close()
        except Exception as error:  # noqa: BLE001 - raised again in the scenario's thread
            self._error = error

    def poll(self, at_most: int = 500) -> list[Received]:
        if not self._waiting:
            self._thread.join(POLL_MS / 1000)
        if self._error is not None:
            raise self._error
        records = self._waiting[:at_most]
        del self._waiting[:at_most]
        return records

    def commit(self, offsets: Mapping[int, Committed] | None = None) -> None:
        reader = KafkaPythonReader(self._consumer, self._topic)
        self._in_thread(lambda: reader.commit(offsets))

    def committed(self, partition: int) -> Committed | None:
        """By another consumer, without waiting for this one's poll."""
        with closing(KafkaConsumer(bootstrap_servers=self._address, group_id=self._group)) as consumer:
            return KafkaPythonReader(consumer, self._topic).committed(partition)

    def _in_thread(self, call: Any) -> None:
        done = threading.Event()

        def call_and_tell() -> None:
            call()
            done.set()

        self._wanted.append(call_and_tell)
        eventually(lambda: done.is_set() or self._error is not None)
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        self._is_closed.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()


class KafkaPythonAdministrator:
    def __init__(self, admin: Any) -> None:
        self._admin = admin

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        self._admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=dict(configs))])

    def topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def partition_count(self, topic: str) -> int:
        (described,) = self._admin.describe_topics([topic])
        return len(described["partitions"])

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions({topic: total})

    def config(self, topic: str, key: str) -> str | None:
        asked = [ConfigResource(ConfigResourceType.TOPIC, topic)]
        value: str | None = self._admin.describe_configs(asked, config_filter="all")["topic"][topic][key]["value"]
        return value

    def set_config(self, topic: str, key: str, value: str) -> None:
        self._admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={key: value})])

    def delete_records(self, topic: str, partition: int, *, before: int) -> int:
        place = TopicPartition(topic, partition)
        first: int = self._admin.delete_records({place: before})[place]["low_watermark"]
        return first

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    def close(self) -> None:
        self._admin.close()


class KafkaPython:
    name = "kafka-python"
    abilities = frozenset({Ability.HOLDS_BATCHES_FOR_THE_FLUSH})
    assignors = frozenset(ASSIGNORS)
    errors: Mapping[Failure, Raises] = {
        Failure.SEND_TO_UNKNOWN_TOPIC: (KafkaTimeoutError, "Failed to update metadata"),
        Failure.SEND_TOO_LARGE: (MessageSizeTooLargeError, None),
        Failure.SEND_UNREACHABLE: (KafkaTimeoutError, r"Unable to bootstrap from 127\.0\.0\.1:1"),
        Failure.ADMINISTER_UNREACHABLE: (KafkaTimeoutError, r"Unable to bootstrap from 127\.0\.0\.1:1"),
        Failure.CREATE_EXISTING_TOPIC: (TopicAlreadyExistsError, None),
        Failure.DELETE_UNKNOWN_TOPIC: (UnknownTopicOrPartitionError, None),
        Failure.READ_WITHOUT_OFFSET: (NoOffsetForPartitionError, None),
        Failure.READ_OUT_OF_RANGE: (OffsetOutOfRangeError, None),
    }

    def writer(self, address: str, how: Writing = WRITING) -> KafkaPythonWriter:
        limits: dict[str, Any] = {"linger_ms": 60_000}  # nothing goes before the flush
        if how.patience_ms is not None:
            limits = {"linger_ms": 0, "max_block_ms": how.patience_ms, "bootstrap_timeout_ms": how.patience_ms}
        return KafkaPythonWriter(
            KafkaProducer(
                bootstrap_servers=address,
                compression_type=None if how.codec == "none" else how.codec,
                acks=how.acks if how.acks == "all" else int(how.acks),
                enable_idempotence=how.is_idempotent,
                max_request_size=how.request_max_bytes,
                retry_backoff_ms=50,
                **limits,
            )
        )

    def reader(
        self, address: str, topic: str, partitions: Iterable[int] = (0,), how: Reading = READING
    ) -> KafkaPythonReader:
        consumer = KafkaConsumer(
            bootstrap_servers=address,
            group_id=how.group,
            auto_offset_reset=how.reset,
            enable_auto_commit=False,
            fetch_max_wait_ms=how.fetch_wait_ms,
            request_timeout_ms=305_000,
        )
        consumer.assign([TopicPartition(topic, partition) for partition in partitions])
        return KafkaPythonReader(consumer, topic)

    def member(self, address: str, topic: str, group: str, how: Joining = JOINING) -> KafkaPythonMember:
        consumer = KafkaConsumer(
            bootstrap_servers=address,
            group_id=group,
            group_instance_id=how.instance,
            auto_offset_reset="earliest",
            enable_auto_commit=how.commits_itself,
            fetch_max_wait_ms=POLL_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            partition_assignment_strategy=(ASSIGNORS[how.assignor],),
            retry_backoff_ms=50,
            reconnect_backoff_max_ms=200,
        )
        return KafkaPythonMember(consumer, address, topic, group)

    def administrator(self, address: str, *, patience_ms: int | None = None) -> KafkaPythonAdministrator:
        limits = {} if patience_ms is None else {"bootstrap_timeout_ms": patience_ms}
        return KafkaPythonAdministrator(KafkaAdminClient(bootstrap_servers=address, **limits))


KAFKA_PYTHON = KafkaPython()
