"""The detectors' clock is event time: the smallest of the topics' newest event times, without idle topics.

It never goes back. Nothing here reads a wall clock, so a replay decides as the first run did.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple


class ClockState(NamedTuple):
    """`highs`: topic -> largest event time seen; `now_ms`: the clock, 0 before any event."""

    highs: Mapping[str, int]
    now_ms: int

    @property
    def high_ms(self) -> int:
        """The largest event time of all topics."""
        return max(self.highs.values(), default=self.now_ms)


EMPTY_CLOCK = ClockState({}, 0)


def advanced(
    state: ClockState, batch_highs: Mapping[str, int], *, idle_topics: Collection[str] = (), is_final: bool = False
) -> ClockState:
    """The clock after a batch with these largest event times.

    `idle_topics` had nothing to read and must not hold the clock back. `is_final`: the run has read all topics to their
    ends, so the clock goes to the largest event time.
    """
    highs = dict(state.highs)
    for topic, high_ms in batch_highs.items():
        highs[topic] = max(high_ms, highs.get(topic, high_ms))
    if not highs:
        return state
    if is_final:
        return ClockState(highs, max(state.now_ms, *highs.values()))
    waited_for = [high_ms for topic, high_ms in highs.items() if topic not in idle_topics]
    # All idle: everything has been read, as at the end of a run.
    now_ms = min(waited_for) if waited_for else max(highs.values())
    return ClockState(highs, max(state.now_ms, now_ms))
