"""What `send` shares with the C kernel: partitions with an open batch, handles, and the gate that joins the two.

With the kernel the usual record takes the gate: one C call from `send` to its place in a batch. Without it the same
classes are plain Python, and every record goes the long way through `Accumulator.append`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ottla.records.kernel import kernel

if TYPE_CHECKING:
    from ottla.clients.producer.batch import ProducerBatch
    from ottla.clients.producer.queue import PartitionQueue


class Gate(Protocol):
    """`send` with the arguments of the producer's own; what it doesn't serve it hands to that."""

    send: Callable[..., Any]


if TYPE_CHECKING or not hasattr(kernel, "Gate"):

    class Door:
        """A partition; `open` is the batch that records are added to, or None."""

        __slots__ = ("open",)

        open: "ProducerBatch | None"

    class TopicDoors:
        """The partitions of a topic, and the one that records without a key go to now."""

        __slots__ = ("ignores_keys", "queues", "sticky")

        queues: "list[PartitionQueue]"
        sticky: "PartitionQueue | None"
        ignores_keys: bool

    class Delivery:
        """One record of a batch."""

        __slots__ = ("_batch", "_index", "_timestamp_ms")

        def __init__(self, batch: "ProducerBatch", index: int, timestamp_ms: int) -> None:
            self._batch = batch
            self._index = index
            self._timestamp_ms = timestamp_ms

    def new_gate(topics: dict[str, Any], handle_type: type, slow: Callable[..., Any]) -> Gate | None:
        return None

else:
    Door = kernel.Door
    TopicDoors = kernel.TopicDoors
    Delivery = kernel.Delivery
    new_gate = kernel.Gate
