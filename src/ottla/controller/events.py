"""What an event of the controller is: it decides what is written and what changes, on nothing but its arguments.

`decide` is pure: it calls no store and no broker, and changes nothing. So it may be asked as often as needed, and
tested with plain values.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from ottla.controller.deltas import Delta
from ottla.controller.placement import PARTITIONS_MAX
from ottla.controller.state import ClusterState
from ottla.coordination.store import Result, Write
from ottla.core.config.config import BrokerConfig
from ottla.core.types import BrokerId

FaultT_co = TypeVar("FaultT_co", covariant=True)

# The events about brokers' configs; no topic has a slash in its name.
BROKER_CONFIGS_KEY = "/brokers"


class Inputs(NamedTuple):
    """What a decision depends on besides the state of topics."""

    config: BrokerConfig
    live_brokers: Sequence[BrokerId]
    controller_epoch: int
    random_bytes: Callable[[int], bytes]
    # More partitions than these are made without a leader: electing one for each writes their nodes, in multis that a
    # store can take.
    led_at_once_max: int = PARTITIONS_MAX


class NodeWanted(NamedTuple):
    """Not decided yet: what this node has comes first, because others may write it, too."""

    path: str


class Proof(NamedTuple):
    """What the store has if the writes were carried out but the answer was lost; None: no such node."""

    path: str
    value: bytes | None


class Decision(NamedTuple):
    """What becomes of an event: the writes of one multi, and what has changed when they are in the store."""

    delta: Delta
    writes: Sequence[Write] = ()  # none: the store has it already
    proof: Proof | None = None


class Event(Protocol[FaultT_co]):
    """One request to the controller, as a value."""

    @property
    def key(self) -> str:
        """Events with the same key are decided one after the other."""
        ...

    def decide(self, state: ClusterState, inputs: Inputs, node: Result | None) -> Decision | NodeWanted | FaultT_co:
        """`node` is the answer to the last `NodeWanted`: OK or NO_NODE."""
        ...

    def fault_of(self, result: Result) -> FaultT_co:
        """The answer when the store refuses the writes, or can't be read."""
        ...
