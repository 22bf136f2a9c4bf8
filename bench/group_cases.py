"""Consumer groups: how fast offsets are committed, how fast a group settles."""

from collections.abc import Mapping, Sequence

from bench.idle_groups import IdleGroups
from bench.loader import Load, run_loader
from bench.model import Case, Metric
from bench.peers import Peer
from bench.raw_groups import await_coordinator, settle
from bench.requests import commit_requests

_OFFSET_END = 2**62  # never started over


class CommitRate:
    """Each consumer commits its one partition as soon as the last commit is answered, as a member of its group."""

    name = "group-commit"
    title = "OffsetCommit, 50 consumers in 5 groups, 50x1"
    metrics: Sequence[Metric] = (
        Metric("commits/s", "/s", goal=1.0),
        Metric("p99", "ms", higher_is_better=False),
    )

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        topic = f"{self.name}-{round_number}"
        peer.create_topic(topic, partitions=10)
        group_ids = [f"{self.name}-{round_number}-{number}" for number in range(5)]
        try:
            await_coordinator(peer.broker.port, group_ids)
            _, members = settle(peer.broker.port, group_ids, size=10, topic=topic)
            load = Load(
                len(members),
                1,
                seconds=self._seconds,
                warmup_seconds=min(1.0, self._seconds / 2),
                offset_end=_OFFSET_END,
            )
            request = commit_requests(topic, members)
            with peer.cpu_watch():
                result = run_loader(peer.broker.port, request, load, topic=topic, scratch_dir=peer.scratch_dir)
        finally:
            peer.drop_topic(topic)
        return {"commits/s": result.requests_per_second, "p99": result.p99_ms}


class Settling:
    """Members that all come at once, with no delay at the broker: from the first join to the last sync."""

    name = "group-settle"
    title = "a group of 100 members settles"
    metrics: Sequence[Metric] = (Metric("first join to last sync", "ms", higher_is_better=False, goal=1.0),)

    def __init__(self, *, groups_in_a_round: int) -> None:
        self._groups_in_a_round = groups_in_a_round

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        topic = f"{self.name}-{round_number}"
        peer.create_topic(topic, partitions=100)
        group_ids = [f"{topic}-{number}" for number in range(self._groups_in_a_round)]
        try:
            await_coordinator(peer.broker.port, group_ids)
            with peer.cpu_watch():
                taken = sorted(settle(peer.broker.port, [name], size=100, topic=topic)[0] for name in group_ids)
        finally:
            peer.drop_topic(topic)
        return {"first join to last sync": 1000 * taken[len(taken) // 2]}


def warm_up_groups(peer: Peer, *, scale: float) -> None:
    """Commits and rebalances for a while, not measured: a JVM reaches its speed after some tens of seconds."""
    CommitRate(seconds=20 * scale).run_round(peer, -1)
    Settling(groups_in_a_round=max(2, int(20 * scale))).run_round(peer, -1)


def group_cases(seconds: float, scale: float) -> list[Case]:
    return [
        CommitRate(seconds=seconds),
        Settling(groups_in_a_round=max(3, int(9 * scale))),
    ]


def own_group_cases(seconds: float, scale: float) -> list[Case]:
    """Ours only: Kafka takes minutes to accept 10,000 connections, and there is nothing to compare with."""
    return [IdleGroups(groups=int(1000 * max(scale, 0.1)), seconds=2 * seconds)]
