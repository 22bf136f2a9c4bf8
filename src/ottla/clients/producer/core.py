"""A producer without its threads: built from a config and a network, for the blocking and the asyncio producer."""

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.clients.config import ClientConfig
from ottla.clients.errors import ClientError
from ottla.clients.network.metadata import Metadata
from ottla.clients.network.port import Network
from ottla.clients.producer.accumulator import Accumulator
from ottla.clients.producer.errors import ProducerClosed, SerializationFailed
from ottla.clients.producer.handle import SendHandle
from ottla.clients.producer.identity import Identity
from ottla.clients.producer.interceptors import Interceptors, ProducerRecord
from ottla.clients.producer.keys import interceptors_of, partitioner_of, serializer_of, settings_of
from ottla.clients.producer.queues import TopicQueues
from ottla.clients.producer.sender import Sender
from ottla.clients.producer.serializers import as_bytes, serialize
from ottla.core.types import TopicPartition
from ottla.links.backoff import Backoff

if TYPE_CHECKING:
    from ottla.clients.consumer.values import GroupMetadata, OffsetAndMetadata
    from ottla.clients.producer.transactions import Transactions


class ProducerCounts(NamedTuple):
    """What a producer has delivered and failed since it was created.

    Bytes are uncompressed, with the headers of their batches. With acks=0 stored means sent.
    """

    stored_records: int
    stored_bytes: int
    failed_records: int
    first_failure: Exception | None


class ProducerCore:
    """Only the client loop calls these methods, except `prepare`; other threads go through `accumulator`."""

    def __init__(
        self,
        network: Network,
        config: ClientConfig,
        *,
        handle_type: type[SendHandle] = SendHandle,
        random: Random | None = None,
    ) -> None:
        settings = self.settings = settings_of(config)
        self.serialize_key = serializer_of(config, "key.serializer")
        self.serialize_value = serializer_of(config, "value.serializer")
        interceptors = interceptors_of(config)
        self.interceptors = Interceptors(interceptors) if interceptors else None
        self.network = network
        self._random = random
        self.metadata = Metadata(
            network,
            max_age_ms=config.get_int("metadata.max.age.ms"),
            backoff_ms=settings.retry_backoff_ms,
            backoff_max_ms=settings.retry_backoff_max_ms,
            allow_auto_create=True,
            random=random,
        )
        self.accumulator = Accumulator(
            settings,
            now_ms=network.now_ms,
            wake=self.wake,
            partitioner=partitioner_of(config),
            handle_type=handle_type,
        )
        identity = self._make_identity()
        self.transactions: Transactions | None = None
        if settings.transactional_id is not None:
            assert identity is not None
            from ottla.clients.producer import transactions  # most producers don't need them

            self.transactions = transactions.Transactions(
                network, self.metadata, settings, identity, self.accumulator, wake=self.wake
            )
        self.sender = Sender(
            network,
            self.metadata,
            self.accumulator,
            settings,
            identity=identity,
            transactions=self.transactions,
            random=random,
        )
        self._run = self.sender.run

    def _make_identity(self) -> Identity | None:
        settings = self.settings
        if not settings.is_idempotent:
            return None
        backoff = Backoff(first_ms=settings.retry_backoff_ms, max_ms=settings.retry_backoff_max_ms, random=self._random)
        return Identity(self.network, backoff, on_known=self.wake)

    def wake(self) -> None:
        """From any thread: make the client loop run the sender."""
        self.network.post(self._run)

    @property
    def converts(self) -> bool:
        """Whether records need `prepare`."""
        return self.interceptors is not None or self.serialize_key is not None or self.serialize_value is not None

    def prepare(self, record: ProducerRecord) -> ProducerRecord:
        """Run interceptors and serializers; then key and value are bytes or None."""
        if self.interceptors is not None:
            record = self.interceptors.on_send(record)
        topic = record.topic
        key, value = record.key, record.value
        if self.serialize_key is not None:
            key = serialize(self.serialize_key, topic, "key", key)
        if self.serialize_value is not None:
            value = serialize(self.serialize_value, topic, "value", value)
        return record._replace(key=key, value=value)

    def find_topic(self, name: str, timeout_ms: int, on_known: Callable[[TopicQueues | ClientError], None]) -> None:
        """Look up a topic that records are sent to."""

        def known(outcome: int | ClientError) -> None:
            if isinstance(outcome, ClientError):
                self.metadata.remove_topic(name)
                on_known(outcome)
            else:
                on_known(self.accumulator.learn_topic(name, outcome))

        self.metadata.wait_for_topic(name, timeout_ms, known)

    def counts(self) -> ProducerCounts:
        """From any thread."""
        sender = self.sender
        return ProducerCounts(sender.stored_records, sender.stored_bytes, sender.failed_records, sender.first_failure)

    def check_takes_tables(self) -> None:
        """Rows of a table get their partitions all at once; a partitioner would need a call per row."""
        if not self.accumulator.has_default_partitioner:
            raise ClientError(
                "send_arrow doesn't call partitioner.class; use a producer without it, which takes the column"
                " partition, else the hash of the key, or send the rows one by one"
            )

    def refuse(self) -> None:
        """Take no more records; from any thread."""
        self.accumulator.refuse(closed_error())

    def close(self) -> None:
        """Fail what is left."""
        error = closed_error()
        if self.transactions is not None:
            self.transactions.close(error)
        self.accumulator.refuse(error)
        self.sender.fail_all(error)
        self.metadata.close(error)

    def broken(self, error: ClientError) -> None:
        """A bug ended the client loop: no caller may wait for ever."""
        self.accumulator.refuse(error)
        self.sender.fail_all(error)


def group_of(group: "GroupMetadata | str") -> "GroupMetadata":
    """A group as users pass it: only its id, or with the member that commits."""
    from ottla.clients.consumer.values import GroupMetadata

    return GroupMetadata(group) if isinstance(group, str) else group


def full_offsets(
    offsets: "Mapping[TopicPartition, OffsetAndMetadata | int]",
) -> "dict[TopicPartition, OffsetAndMetadata]":
    """Offsets as users pass them, plain numbers or with metadata, by (topic, partition)."""
    from ottla.clients.consumer.values import OffsetAndMetadata

    return {
        TopicPartition(*topic_partition): offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        for topic_partition, offset in offsets.items()
    }


def closed_error() -> ProducerClosed:
    return ProducerClosed("the producer is closed; make a new one")


def checked_topic(topic: Any) -> str:
    if not isinstance(topic, str) or not topic:
        raise SerializationFailed(f"topic {topic!r}: expected a name, a str that is not empty")
    return topic


def checked_bytes(topic: str, part: str, data: Any) -> bytes | None:
    return None if data is None else as_bytes(topic, part, data)
