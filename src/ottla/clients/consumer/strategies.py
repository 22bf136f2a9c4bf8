"""`partition.assignment.strategy`: the four assignors, by their names and by the class names in Java's configs.

The members of a group agree on one by name; this file also builds the user data that each sends to the leader.
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
    """The assignors that a consumer supports, the preferred one first."""

    names: tuple[str, ...]

    @property
    def is_cooperative(self) -> bool:
        """A member keeps partitions during a rebalance only if all of its assignors are cooperative."""
        return all(name == COOPERATIVE_STICKY for name in self.names)


def parse_strategies(names: Sequence[str]) -> Strategies:
    """ValueError names an unknown assignor."""
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
    """The user data of a subscription for that assignor; `topic_partitions` are those of the last assignment."""
    if name == STICKY and generation_id >= 0:
        return encode_sticky_data(topic_partitions, generation_id)
    if name == COOPERATIVE_STICKY:
        return encode_cooperative_data(generation_id)
    return None
