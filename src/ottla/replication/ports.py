"""What the partitions of a broker need of it, and of its cluster: their leader writes the in-sync replicas to the
coordination store, and has to know which brokers live."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from ottla.core.cluster import PartitionState
from ottla.core.errors import StorageError
from ottla.core.types import BrokerEpoch, BrokerId, Offset, TopicPartition
from ottla.purgatory.purgatory import Purgatory
from ottla.storage.log import Log

if TYPE_CHECKING:
    from ottla.replication.partition import Partition


class IsrWritten(NamedTuple):
    """The store has the in-sync replicas, and the partition's node this version."""

    version: int


class IsrRefused(NamedTuple):
    """Nothing was written, for good: the node has another version (the controller elected somebody, so wait for what it
    sends), or a replica that was to be added has registered anew since."""

    reason: str


class IsrUnknown(NamedTuple):
    """The store did not answer: perhaps it was written. Until a write succeeds, both sets of replicas count."""

    reason: str


IsrResult: TypeAlias = IsrWritten | IsrRefused | IsrUnknown


class IsrWriter(Protocol):
    """Writes in-sync replicas to the store (Kafka's AlterPartitionManager); implemented in `broker/isr_store.py`."""

    def write(
        self,
        topic_partition: TopicPartition,
        state: PartitionState,
        added: dict[BrokerId, BrokerEpoch],
        on_done: Callable[[IsrResult], None],
    ) -> None:
        """Replace the node of `state.version` by `state`, fenced by that version and by the epochs of who is added.

        Never calls back before it returns. Asked again after `IsrUnknown`, it finds out what the node has now: if it
        is what was to be written, that is `IsrWritten`.
        """
        ...


class ClusterPorts(NamedTuple):
    """What the partitions that this broker leads with followers need of the broker."""

    isr_writer: IsrWriter
    live_epoch: Callable[[BrokerId], BrokerEpoch | None]  # of the registration that is known now; None: not live
    lag_time_max_ms: int  # replica.lag.time.max.ms


class NoCluster:
    """For a broker alone: nobody writes in-sync replicas. Never calls back, as with a store that does not answer."""

    def write(
        self,
        topic_partition: TopicPartition,
        state: PartitionState,
        added: dict[BrokerId, BrokerEpoch],
        on_done: Callable[[IsrResult], None],
    ) -> None:
        pass


ALONE = ClusterPorts(NoCluster(), lambda _: None, 30_000)


class PartitionPorts(NamedTuple):
    """What the partitions of a broker need of it."""

    broker_id: BrokerId
    request_flush: Callable[[Log], None]
    report_storage_error: Callable[[Log, StorageError], None]  # the log manager decides what goes offline
    truncate_log: Callable[[Log, Offset], None]  # drops what is at or after the offset; StorageError: the disk fails
    restart_log: Callable[[Log, Offset], None]  # drops everything and goes on at the offset
    fetches: Purgatory  # those that wait; marked by each append, completed once per loop turn
    produces: Purgatory  # the same, for those that wait for acks of followers
    deletions: Purgatory
    now_ms: Callable[[], int]  # the wheel's clock, for how long a follower lags
    cluster: ClusterPorts
    on_isr_unsettled: Callable[["Partition"], None]  # `maybe_change_isr` has to be called again
