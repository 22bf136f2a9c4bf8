"""confluent-kafka (librdkafka) behind the scenarios' port."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from tests.processes import eventually
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

APPEND_TIME = 2
WAIT_S = 60.0
# It goes on by itself: a broker is away, or the first group of a cluster looks for its coordinator.
PASSING = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
QUIET = {"log_level": 0}  # what it finds wrong comes as errors too


class ConfluentWriter:
    def __init__(self, producer: Any, *, knows_partitions_first: bool) -> None:
        self._producer = producer
        self._knows_partitions_first = knows_partitions_first

    def send(self, topic: str, messages: Sequence[Message], *, partition: int | None = 0) -> list[tuple[int, int]]:
        outcomes: dict[int, tuple[Any, Any]] = {}
        place = {} if partition is None else {"partition": partition}
        if self._knows_partitions_first:
            # Otherwise it queues the records one by one when the metadata comes, and a flush that has begun by then
            # cuts them into several batches.
            self._producer.list_topics(topic, WAIT_S)
        for number, message in enumerate(messages):
            self._producer.produce(
                topic,
                key=message.key,
                value=message.value,
                headers=list(message.headers),
                timestamp=message.timestamp_ms,
                on_delivery=lambda error, stored, number=number: outcomes.update({number: (error, stored)}),
                **place,
            )
        assert self._producer.flush(WAIT_S) == 0
        for error, _ in outcomes.values():
            if error is not None:
                raise KafkaException(error)
        stored = [outcomes[number][1] for number in range(len(messages))]
        return [(each.partition(), each.offset()) for each in stored]

    def close(self) -> None:
        assert self._producer.flush(WAIT_S) == 0


class ConfluentReader(Diary):
    """A reader and a member."""

    def __init__(self, consumer: Any, topic: str) -> None:
        super().__init__()
        self._consumer = consumer
        self._topic = topic

    def poll(self, at_most: int = 500) -> list[Received]:
        records = []
        for message in self._consumer.consume(at_most, POLL_MS / 1000):
            error = message.error()
            if error is not None:
                if error.retriable() or error.code() in PASSING:
                    continue
                raise KafkaException(error)
            kind, timestamp_ms = message.timestamp()
            content = Message(message.key(), message.value(), tuple(message.headers() or ()), timestamp_ms)
            records.append(Received(message.partition(), message.offset(), content, kind == APPEND_TIME))
        return records

    def commit(self, offsets: Mapping[int, Committed] | None = None) -> None:
        if offsets is None:
            done = self._consumer.commit(asynchronous=False)
        else:
            places = [TopicPartition(self._topic, each, *offsets[each]) for each in offsets]
            done = self._consumer.commit(offsets=places, asynchronous=False)
        for place in done:
            if place.error is not None:
                raise KafkaException(place.error)

    def committed(self, partition: int) -> Committed | None:
        (found,) = self._consumer.committed([TopicPartition(self._topic, partition)], timeout=WAIT_S)
        return None if found.offset < 0 else Committed(found.offset, found.metadata or "")

    def seek(self, partition: int, offset: int) -> None:
        def is_done() -> bool:
            try:
                self._consumer.seek(TopicPartition(self._topic, partition, offset))
            except KafkaException as error:
                if error.args[0].code() != KafkaError._STATE:  # until it has begun to fetch
                    raise
                return False
            return True

        eventually(is_done)

    def seek_to_beginning(self, partition: int) -> None:
        self.seek(partition, OFFSET_BEGINNING)

    def seek_to_end(self, partition: int) -> None:
        self.seek(partition, OFFSET_END)

    def position(self, partition: int) -> int:
        (place,) = self._consumer.position([TopicPartition(self._topic, partition)])
        offset: int = place.offset
        return offset

    def offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        asked = [TopicPartition(self._topic, partition, timestamp_ms)]
        (found,) = self._consumer.offsets_for_times(asked, timeout=WAIT_S)
        return None if found.offset < 0 else found.offset

    def ends(self, partition: int) -> tuple[int, int]:
        first, end = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=WAIT_S)
        return first, end

    def pause(self, partition: int) -> None:
        self._consumer.pause([TopicPartition(self._topic, partition)])

    def resume(self, partition: int) -> None:
        self._consumer.resume([TopicPartition(self._topic, partition)])

    @property
    def partitions(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class ConfluentAdministrator:
    """Each call takes a limit of time; no setting of the client is one."""

    def __init__(self, admin: AdminClient, limit_s: float) -> None:
        self._admin = admin
        self._limit_s = limit_s

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        self._admin.create_topics([NewTopic(topic, partitions, 1, config=dict(configs))])[topic].result(self._limit_s)

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=self._limit_s).topics)

    def partition_count(self, topic: str) -> int:
        return len(self._admin.list_topics(topic, timeout=self._limit_s).topics[topic].partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions([NewPartitions(topic, total)])[topic].result(self._limit_s)

    def config(self, topic: str, key: str) -> str | None:
        (future,) = self._admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
        value: str | None = future.result(self._limit_s)[key].value
        return value

    def set_config(self, topic: str, key: str, value: str) -> None:
        change = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
        (future,) = self._admin.incremental_alter_configs([resource]).values()
        future.result(self._limit_s)

    def delete_records(self, topic: str, partition: int, *, before: int) -> int:
        (future,) = self._admin.delete_records([TopicPartition(topic, partition, before)]).values()
        first: int = future.result(self._limit_s).low_watermark
        return first

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(self._limit_s)

    def close(self) -> None:
        """It has no such call."""


class Confluent:
    name = "confluent-kafka"
    abilities = frozenset(Ability)
    assignors = frozenset({"range", "roundrobin", "cooperative-sticky"})
    errors: Mapping[Failure, Raises] = {
        Failure.SEND_TO_UNKNOWN_TOPIC: (KafkaException, "_UNKNOWN_TOPIC|UNKNOWN_TOPIC_OR_PART"),
        Failure.SEND_TOO_LARGE: (KafkaException, "MSG_SIZE_TOO_LARGE"),
        Failure.SEND_UNREACHABLE: (KafkaException, "_MSG_TIMED_OUT"),
        Failure.ADMINISTER_UNREACHABLE: (KafkaException, "_TRANSPORT|_TIMED_OUT|_ALL_BROKERS_DOWN"),
        Failure.CREATE_EXISTING_TOPIC: (KafkaException, "TOPIC_ALREADY_EXISTS"),
        Failure.DELETE_UNKNOWN_TOPIC: (KafkaException, "UNKNOWN_TOPIC_OR_PART"),
        Failure.READ_WITHOUT_OFFSET: (KafkaException, "_AUTO_OFFSET_RESET.*no previously committed offset"),
        Failure.READ_OUT_OF_RANGE: (KafkaException, "_AUTO_OFFSET_RESET.*Offset out of range"),
    }

    def writer(self, address: str, how: Writing = WRITING) -> ConfluentWriter:
        settings: dict[str, Any] = {
            **QUIET,
            "bootstrap.servers": address,
            "compression.codec": how.codec,
            "acks": how.acks,
            "enable.idempotence": how.is_idempotent,
            "message.max.bytes": how.request_max_bytes,
            "partitioner": "murmur2_random",  # Java's; its own default is another
            "reconnect.backoff.max.ms": 200,
            "linger.ms": 60_000,  # nothing goes before the flush
        }
        if how.patience_ms is not None:
            settings |= {
                "linger.ms": 0,
                "message.timeout.ms": how.patience_ms,
                "topic.metadata.propagation.max.ms": how.patience_ms // 2,
            }
        return ConfluentWriter(Producer(settings), knows_partitions_first=how.patience_ms is None)

    def reader(
        self, address: str, topic: str, partitions: Iterable[int] = (0,), how: Reading = READING
    ) -> ConfluentReader:
        settings = {
            "auto.offset.reset": "error" if how.reset == "none" else how.reset,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": how.fetch_wait_ms,
        }
        consumer = self._consumer(address, how.group or f"unused-{uuid.uuid4().hex[:8]}", settings)
        # Without a group of its own there is no coordinator to ask where to start.
        start = OFFSET_INVALID if how.group else {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}[how.reset]
        consumer.assign([TopicPartition(topic, partition, start) for partition in partitions])
        return ConfluentReader(consumer, topic)

    def member(self, address: str, topic: str, group: str, how: Joining = JOINING) -> ConfluentReader:
        settings = {
            "auto.offset.reset": "earliest",
            "enable.auto.commit": how.commits_itself,
            "partition.assignment.strategy": how.assignor,
        }
        if how.instance is not None:
            settings["group.instance.id"] = how.instance
        consumer = self._consumer(address, group, settings)
        member = ConfluentReader(consumer, topic)
        consumer.subscribe(
            [topic],
            on_assign=lambda _, places: member.on_partitions_assigned(places),
            on_revoke=lambda _, places: member.on_partitions_revoked(places),
        )
        return member

    def _consumer(self, address: str, group: str, settings: dict[str, Any]) -> Consumer:
        every = {
            **QUIET,
            "bootstrap.servers": address,
            "group.id": group,
            "fetch.wait.max.ms": POLL_MS,
            "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "reconnect.backoff.max.ms": 200,
        }
        return Consumer({**every, **settings})

    def administrator(self, address: str, *, patience_ms: int | None = None) -> ConfluentAdministrator:
        limit_s = WAIT_S if patience_ms is None else patience_ms / 1000
        return ConfluentAdministrator(AdminClient({**QUIET, "bootstrap.servers": address}), limit_s)


CONFLUENT = Confluent()
