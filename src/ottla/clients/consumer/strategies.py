"""`partition.assignment.strategy`: the four assignors by their names and by the class names that Java's configs have.

The members of a group agree on one by name; what each of them tells the leader beside its topics is said here.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.clients.assignors import ASSIGNORS, Assignor
from ottla.clients.consumer.sticky import (
    assign_cooperative_sticky,
    assign_sticky,
    encode_cooperative_data,
    encode_sticky_data,
)
from ottla.core.types import TopicPartition

STICKY: Final = "sticky"
COOPERATIVE_STICKY: Final = "cooperative-sticky"
ALL_ASSIGNORS: Final[Mapping[str, Assignor]] = {
    **ASSIGNORS,
    STICKY: assign_sticky,
    COOPERATIVE_STICKY: assign_cooperative_sticky,
}
_JAVA_CLASSES: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": STICKY,
    "CooperativeStickyAssignor": COOPERATIVE_STICKY,
}


class Strategies(NamedTuple):
    """What a consumer offers its group, the preferred one first."""

    names: tuple[str, ...]

    @property
    def is_cooperative(self) -> bool:
        """Partitions are kept over a rebalance only if every assignor that may be chosen knows of that."""
        return all(name == COOPERATIVE_STICKY for name in self.names)


def parse_strategies(names: Sequence[str]) -> Strategies:
    """ValueError names what is not known."""
    known = []
    for name in names:
        found = _JAVA_CLASSES.get(name.rpartition(".")[2], name)
        if found not in ALL_ASSIGNORS:
            raise ValueError(f"unknown assignor {name!r}; expected any of {', '.join(ALL_ASSIGNORS)}")
        if found in known:
            raise ValueError(f"assignor {found!r} is named twice")
        known.append(found)
    if not known:
        raise ValueError(f"no assignor; expected any of {', '.join(ALL_ASSIGNORS)}")
    return Strategies(tuple(known))


def user_data_of(name: str, *, topic_partitions: Iterable[TopicPartition], generation_id: int) -> bytes | None:
    """What goes with a subscription under that assignor: `topic_partitions` are those of the last assignment."""
    if name == STICKY and generation_id >= 0:
        return encode_sticky_data(topic_partitions, generation_id)
    if name == COOPERATIVE_STICKY:
        return encode_cooperative_data(generation_id)
    return None
