"""Our own clients behind the scenarios' port, in both faces: they have the same names, so one adapter serves both."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import ottla
import ottla.aio
from ottla import BrokerError, NewTopic, TopicPartition
from ottla.clients.admin_configs import AlterKind, ConfigChange, topic_resource
from ottla.clients.consumer.errors import NoOffsetForPartition, OffsetOutOfRange
from ottla.clients.consumer.listener import RebalanceListener
from ottla.clients.consumer.values import OffsetAndMetadata
from ottla.clients.errors import ConnectionFailed, TimedOut
from tests.scenarios.java_named import JavaNamedReader
from tests.scenarios.loop_thread import Awaited
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

LINGER_MS = 60_000  # nothing goes before the flush
WAIT_MS = 60_000


class OttlaWriter:
    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def send(self, topic: str, messages: Sequence[Message], *, partition: int | None = 0) -> list[tuple[int, int]]:
        handles = [
            self._producer.send(
                topic, message.value, message.key, list(message.headers), partition, message.timestamp_ms
            )
            for message in messages
        ]
        self._producer.flush(WAIT_MS)
        stored = [handle.result(0) for handle in handles]
        return [(each.partition, each.offset) for each in stored]

    def close(self) -> None:
        self._producer.close(WAIT_MS)


class OttlaReader(JavaNamedReader, Diary, RebalanceListener):
    """A reader and a member."""

    partition_type = TopicPartition
    offset_type = OffsetAndMetadata

    def __init__(self, consumer: Any, topic: str) -> None:
        super().__init__(consumer, topic)
        Diary.__init__(self)

    def poll(self, at_most: int = 500) -> list[Received]:
        return [
            Received(
                record.partition,
                record.offset,
                Message(record.key, record.value, record.headers, record.timestamp_ms),
                record.timestamp_type == 1,
            )
            for record in self._consumer.poll(POLL_MS, max_records=at_most)
        ]

    def committed(self, partition: int) -> Committed | None:
        found = self._consumer.committed([self._at(partition)])[self._at(partition)]
        return None if found is None else Committed(found.offset, found.metadata)

    @property
    def partitions(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}


class OttlaAdministrator:
    def __init__(self, admin: Any) -> None:
        self._admin = admin

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        self._admin.create_topics([NewTopic(topic, partitions, 1, tuple(configs.items()))])

    def topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def partition_count(self, topic: str) -> int:
        return len(self._admin.describe_topics([topic])[topic].partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin.add_partitions({topic: total})

    def config(self, topic: str, key: str) -> str | None:
        entries = self._admin.describe_configs([topic_resource(topic)])[topic_resource(topic)]
        found: dict[str, str | None] = {entry.name: entry.value for entry in entries}
        return found[key]

    def set_config(self, topic: str, key: str, value: str) -> None:
        self._admin.alter_configs({topic_resource(topic): [ConfigChange(key, AlterKind.SET, value)]})

    def delete_records(self, topic: str, partition: int, *, before: int) -> int:
        place = TopicPartition(topic, partition)
        first: int = self._admin.delete_records({place: before})[place]
        return first

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    def close(self) -> None:
        self._admin.close()


class Ottla:
    """`face` has the three clients; `live` makes one, to be called from the scenario's thread."""

    abilities = frozenset(Ability)
    assignors = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
    errors: Mapping[Failure, Raises] = {
        Failure.SEND_TO_UNKNOWN_TOPIC: (TimedOut, "not known after .*UNKNOWN_TOPIC_OR_PARTITION"),
        Failure.SEND_TOO_LARGE: (BrokerError, "MESSAGE_TOO_LARGE"),
        Failure.SEND_UNREACHABLE: (TimedOut, r"not known after .*127\.0\.0\.1:1"),
        Failure.ADMINISTER_UNREACHABLE: (ConnectionFailed, r"127\.0\.0\.1:1: not reached"),
        Failure.CREATE_EXISTING_TOPIC: (BrokerError, "TOPIC_ALREADY_EXISTS"),
        Failure.DELETE_UNKNOWN_TOPIC: (BrokerError, "UNKNOWN_TOPIC_OR_PARTITION"),
        Failure.READ_WITHOUT_OFFSET: (NoOffsetForPartition, None),
        Failure.READ_OUT_OF_RANGE: (OffsetOutOfRange, None),
    }

    def __init__(self, name: str, face: Any, live: Callable[[Callable[[], Any]], Any]) -> None:
        self.name = name
        self._face = face
        self._live = live

    def writer(self, address: str, how: Writing = WRITING) -> OttlaWriter:
        settings = {
            "bootstrap.servers": address,
            "compression.type": how.codec,
            "acks": how.acks,
            "enable.idempotence": how.is_idempotent,
            "max.request.size": how.request_max_bytes,
            "linger.ms": LINGER_MS if how.patience_ms is None else 0,
            "max.block.ms": WAIT_MS if how.patience_ms is None else how.patience_ms,
        }
        return OttlaWriter(self._live(lambda: self._face.Producer(settings)))

    def reader(self, address: str, topic: str, partitions: Iterable[int] = (0,), how: Reading = READING) -> OttlaReader:
        consumer = self._consumer(
            address,
            how.group,
            {"auto.offset.reset": how.reset, "fetch.max.wait.ms": how.fetch_wait_ms},
            commits_itself=False,
        )
        consumer.assign([TopicPartition(topic, partition) for partition in partitions])
        return OttlaReader(consumer, topic)

    def member(self, address: str, topic: str, group: str, how: Joining = JOINING) -> OttlaReader:
        settings = {"auto.offset.reset": "earliest", "partition.assignment.strategy": how.assignor}
        if how.instance is not None:
            settings["group.instance.id"] = how.instance
        consumer = self._consumer(address, group, settings, commits_itself=how.commits_itself)
        member = OttlaReader(consumer, topic)
        consumer.subscribe([topic], member)
        return member

    def _consumer(self, address: str, group: str | None, settings: dict[str, Any], *, commits_itself: bool) -> Any:
        of_group = {} if group is None else {"group.id": group, "enable.auto.commit": commits_itself}
        every = {
            "bootstrap.servers": address,
            "fetch.max.wait.ms": POLL_MS,
            "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "retry.backoff.ms": 20,
        }
        return self._live(lambda: self._face.Consumer({**every, **of_group, **settings}))

    def administrator(self, address: str, *, patience_ms: int | None = None) -> OttlaAdministrator:
        settings = {"bootstrap.servers": address, "retry.backoff.ms": 20}
        if patience_ms is not None:
            settings["default.api.timeout.ms"] = patience_ms
        return OttlaAdministrator(self._live(lambda: self._face.Admin(settings)))


OTTLA = Ottla("ottla", ottla, lambda make: make())
OTTLA_AIO = Ottla("ottla.aio", ottla.aio, Awaited)
