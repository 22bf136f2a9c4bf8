"""aiokafka behind the scenarios' port: awaited in the suite's loop, so that it can wait while others are polled."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import (
    KafkaConnectionError,
    MessageSizeTooLargeError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.structs import OffsetAndMetadata

from tests.scenarios.clients_kafka_python import KafkaPythonReader, received
from tests.scenarios.loop_thread import Asked, Awaited, loop_thread
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

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class AiokafkaWriter:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._producer = Awaited(lambda: AIOKafkaProducer(**settings))
        try:
            self._producer.start()
        except KafkaConnectionError:
            self._producer.stop()
            raise

    def send(self, topic: str, messages: Sequence[Message], *, partition: int | None = 0) -> list[tuple[int, int]]:
        async def send_all(producer: Any) -> list[tuple[int, int]]:
            futures = [
                await producer.send(
                    topic,
                    key=message.key,
                    value=message.value,
                    headers=list(message.headers),
                    partition=partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            stored = [await future for future in futures]
            # It tells nothing of records that no broker acknowledges.
            return [(each.partition, each.offset) if each is not None else (-1, -1) for each in stored]

        return self._producer.run_with(send_all)

    def close(self) -> None:
        self._producer.stop()


class AiokafkaReader(KafkaPythonReader):
    """What is not of its own has kafka-python's names."""

    partition_type = TopicPartition
    offset_type = OffsetAndMetadata

    def __init__(self, address: str, topic: str, group: str | None, settings: dict[str, Any]) -> None:
        consumer = Awaited(lambda: AIOKafkaConsumer(bootstrap_servers=address, group_id=group, **settings))
        super().__init__(consumer, topic)
        self._address = address
        self._group = group

    def start(self, places: Iterable[Any]) -> None:
        self._consumer.start()
        self._consumer.assign(places)

    def poll(self, at_most: int = 500) -> list[Received]:
        polled = self._consumer.getmany(timeout_ms=POLL_MS, max_records=at_most)
        return [received(record) for records in polled.values() for record in records]

    def committed(self, partition: int) -> Committed | None:
        """By the administrator: the consumer tells no metadata."""
        administrator = AiokafkaAdministrator(self._address, {})
        try:
            return administrator.committed(self._group or "", self._at(partition))
        finally:
            administrator.close()

    def close(self) -> None:
        self._consumer.stop()


class AiokafkaMember(AiokafkaReader, Diary, ConsumerRebalanceListener):  # type: ignore[misc]
    """Starting ends when it is a member, and every poll of a rebalance with it: the others must be polled meanwhile."""

    def __init__(self, address: str, topic: str, group: str, settings: dict[str, Any]) -> None:
        AiokafkaReader.__init__(self, address, topic, group, settings)
        Diary.__init__(self)
        self._consumer.subscribe([topic], listener=self)
        target = self._consumer.target
        self._starting = loop_thread().start(target.start())
        self._polled = Asked(lambda: target.getmany(timeout_ms=POLL_MS))

    def poll(self, at_most: int = 500) -> list[Received]:
        if not self._starting.done():
            return []
        self._starting.result()
        polled = self._polled.result() or {}
        return [received(record) for records in polled.values() for record in records]

    @property
    def partitions(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}


class AiokafkaAdministrator:
    """Some answers come with errors in them that the client does not raise: they are raised here, as its own."""

    def __init__(self, address: str, limits: dict[str, int]) -> None:
        self._admin = Awaited(lambda: AIOKafkaAdminClient(bootstrap_servers=address, **limits))
        try:
            self._admin.start()
        except KafkaConnectionError:
            self._admin.close()
            raise

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        answer = self._admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=dict(configs))])
        self._check(answer.topic_errors[0][1])

    def topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def partition_count(self, topic: str) -> int:
        (described,) = self._admin.describe_topics([topic])
        return len(described["partitions"])

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions({topic: NewPartitions(total)})

    def config(self, topic: str, key: str) -> str | None:
        (answer,) = self._admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        ((error_code, _, _, _, entries),) = answer.resources
        self._check(error_code)
        found: dict[str, str | None] = {entry[0]: entry[1] for entry in entries}
        return found[key]

    def set_config(self, topic: str, key: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={key: value})
        for answer in self._admin.alter_configs([resource]):
            for error_code, *_ in answer.resources:
                self._check(error_code)

    def delete_records(self, topic: str, partition: int, *, before: int) -> int:
        place = TopicPartition(topic, partition)
        first: int = self._admin.delete_records({place: RecordsToDelete(before_offset=before)})[place]
        return first

    def delete(self, topic: str) -> None:
        answer = self._admin.delete_topics([topic])
        self._check(answer.topic_error_codes[0][1])

    def committed(self, group: str, place: TopicPartition) -> Committed | None:
        found = self._admin.list_consumer_group_offsets(group).get(place)
        return None if found is None or found.offset < 0 else Committed(found.offset, found.metadata)

    def close(self) -> None:
        self._admin.close()

    def _check(self, error_code: int) -> None:
        if error_code:
            raise for_code(error_code)


class Aiokafka:
    name = "aiokafka"
    abilities = frozenset({Ability.HEADERS_WITHOUT_VALUE})
    assignors = frozenset(ASSIGNORS)
    errors: Mapping[Failure, Raises] = {
        Failure.SEND_TO_UNKNOWN_TOPIC: (UnknownTopicOrPartitionError, None),
        Failure.SEND_TOO_LARGE: (MessageSizeTooLargeError, None),
        Failure.SEND_UNREACHABLE: (KafkaConnectionError, None),
        Failure.ADMINISTER_UNREACHABLE: (KafkaConnectionError, None),
        Failure.CREATE_EXISTING_TOPIC: (TopicAlreadyExistsError, None),
        Failure.DELETE_UNKNOWN_TOPIC: (UnknownTopicOrPartitionError, None),
        Failure.READ_WITHOUT_OFFSET: (NoOffsetForPartitionError, None),
        Failure.READ_OUT_OF_RANGE: (OffsetOutOfRangeError, None),
    }

    def writer(self, address: str, how: Writing = WRITING) -> AiokafkaWriter:
        settings: dict[str, Any] = {
            "bootstrap_servers": address,
            "compression_type": None if how.codec == "none" else how.codec,
            "acks": how.acks if how.acks == "all" else int(how.acks),
            "enable_idempotence": how.is_idempotent,
            "max_request_size": how.request_max_bytes,
            "linger_ms": 2,
            "request_timeout_ms": 40_000 if how.patience_ms is None else how.patience_ms,
        }
        return AiokafkaWriter(settings)

    def reader(
        self, address: str, topic: str, partitions: Iterable[int] = (0,), how: Reading = READING
    ) -> AiokafkaReader:
        settings = {
            "auto_offset_reset": how.reset,
            "enable_auto_commit": False,
            "fetch_max_wait_ms": how.fetch_wait_ms,
            "request_timeout_ms": 120_000,
        }
        reader = AiokafkaReader(address, topic, how.group, settings)
        reader.start([TopicPartition(topic, partition) for partition in partitions])
        return reader

    def member(self, address: str, topic: str, group: str, how: Joining = JOINING) -> AiokafkaMember:
        settings = {
            "group_instance_id": how.instance,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": how.commits_itself,
            "fetch_max_wait_ms": POLL_MS,
            "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "partition_assignment_strategy": [ASSIGNORS[how.assignor]],
            "retry_backoff_ms": 50,
        }
        return AiokafkaMember(address, topic, group, settings)

    def administrator(self, address: str, *, patience_ms: int | None = None) -> AiokafkaAdministrator:
        return AiokafkaAdministrator(address, {} if patience_ms is None else {"request_timeout_ms": patience_ms})


AIOKAFKA = Aiokafka()
