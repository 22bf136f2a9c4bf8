"""The states of a group, and which may follow which: the one place that says so."""

from enum import Enum
from typing import Final


class GroupState(Enum):
    """A group's state; the value is its name on the wire."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# Names of their own, because a lookup in an enum class costs more than all that a heartbeat does otherwise.
EMPTY: Final = GroupState.EMPTY
PREPARING_REBALANCE: Final = GroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE: Final = GroupState.COMPLETING_REBALANCE
STABLE: Final = GroupState.STABLE
DEAD: Final = GroupState.DEAD

# state                 what happens there                                            where it goes
# Empty                 no members; committed offsets may live on                     a member joins: Preparing
# PreparingRebalance    joins wait for the others; heartbeats are answered with 27    all are there, or time is up:
#                                                                                     Completing; nobody came: Empty
# CompletingRebalance   joins are answered, syncs wait for the leader's assignment    assignment stored: Stable;
#                                                                                     somebody joins or goes: Preparing
# Stable                everybody has or may fetch an assignment                      somebody joins or goes: Preparing
# Dead                  unloaded or deleted; nothing refers to it any more            -
PREVIOUS_STATES: Final[dict[GroupState, frozenset[GroupState]]] = {
    EMPTY: frozenset((PREPARING_REBALANCE,)),
    PREPARING_REBALANCE: frozenset((EMPTY, COMPLETING_REBALANCE, STABLE)),
    COMPLETING_REBALANCE: frozenset((PREPARING_REBALANCE,)),
    STABLE: frozenset((COMPLETING_REBALANCE,)),
    DEAD: frozenset(GroupState),
}
