"""What the partitions of a broker need of the coordination store: their leader writes the in-sync replicas there."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from ottla.core.cluster import PartitionState
from ottla.core.types import BrokerEpoch, BrokerId, TopicPartition


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
