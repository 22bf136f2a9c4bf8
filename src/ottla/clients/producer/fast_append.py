"""What `send` shares with the C kernel: partitions with an open batch, handles, and FastAppend, which joins the two.

With the kernel the usual record takes the fast path: one C call from `send` into the open batch. Without the kernel the
same classes are plain Python, and every record takes the slow path through `Accumulator.append`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ottla.records.kernel import kernel

if TYPE_CHECKING:
    from ottla.clients.producer.batch import ProducerBatch
    from ottla.clients.producer.queues import PartitionQueue


class FastAppend(Protocol):
    """`send` takes the arguments of the producer's `send`, and passes on to it every call that it can't serve."""

    send: Callable[..., Any]


if TYPE_CHECKING or not hasattr(kernel, "FastAppend"):

    class PartitionSlot:
        """A partition; `send` appends to the batch `open`, which is None when there is none."""

        __slots__ = ("open",)

        open: "ProducerBatch | None"

    class TopicSlots:
        """The partitions of a topic, and the sticky one, which records without a key go to."""

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

    def new_fast_append(topics: dict[str, Any], handle_type: type, slow: Callable[..., Any]) -> FastAppend | None:
        return None

else:
    PartitionSlot = kernel.PartitionSlot
    TopicSlots = kernel.TopicSlots
    Delivery = kernel.Delivery
    new_fast_append = kernel.FastAppend
