"""What a case is and what it yields: metrics with goals, rounds for each peer, medians and ratios. No I/O."""

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from bench.peers import Peer

OURS = "ottla"
THEIRS = "kafka"
EARLIER = "earlier"  # another checkout of Ottla, in Kafka's place

# What a change may cost, and what rounds of one and the same broker differ by.
_KEPT = 0.97


class Metric(NamedTuple):
    """One figure of a case; a goal is the ratio ours : Kafka's, or for `absolute` ones our own figure."""

    name: str
    unit: str
    higher_is_better: bool = True
    goal: float | None = None
    absolute_goal: bool = False

    def is_reached(self, figure: float) -> bool:
        assert self.goal is not None
        return figure >= self.goal if self.higher_is_better else figure <= self.goal

    def goal_text(self) -> str:
        if self.goal is None:
            return "-"
        unit = f" {self.unit}" if self.absolute_goal else ""
        figure = f"{self.goal:,.0f}" if self.goal >= 1000 else f"{self.goal:.3g}"
        return f"{'≥' if self.higher_is_better else '≤'} {figure}{unit}"

    def held_against(self, rival: str) -> "Metric":
        """Its goal beside Kafka is its own; beside an earlier Ottla it is to be no slower and no larger."""
        if rival != EARLIER:
            return self
        return self._replace(goal=_KEPT if self.higher_is_better else 1 / _KEPT, absolute_goal=False)


class Case(Protocol):
    """A piece of work that each peer does in turn; a round yields a figure for each metric."""

    name: str
    title: str
    metrics: Sequence[Metric]

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]: ...


class Row(NamedTuple):
    """One metric of one case, over all rounds and peers."""

    case: str
    title: str
    metric: Metric
    rounds: Mapping[str, Sequence[float]]
    cpu_cores: Mapping[str, float]
    note: str = ""
    rival: str = THEIRS  # whom ours is held against: a broker, or another client on the same broker

    @property
    def is_of_clients(self) -> bool:
        return self.rival not in (THEIRS, EARLIER)

    def median(self, peer_name: str) -> float | None:
        figures = self.rounds.get(peer_name)
        return statistics.median(figures) if figures else None

    def ratio(self) -> float | None:
        ours, theirs = self.median(OURS), self.median(self.rival)
        return ours / theirs if ours is not None and theirs else None

    def verdict(self) -> str:
        """pass, FAIL, or a dash where there is no goal or nothing to compare with."""
        figure = self.median(OURS) if self.metric.absolute_goal else self.ratio()
        if self.metric.goal is None or figure is None:
            return "-"
        return "pass" if self.metric.is_reached(figure) else "FAIL"
