"""Consumer groups: how fast offsets are committed, how fast a group settles, what idle groups cost."""

import subprocess
import time
from collections.abc import Mapping, Sequence

from bench.loader import Load, loader_command, parse_result, run_loader
from bench.model import Case, Metric
from bench.peers import Peer
from bench.raw_groups import await_coordinator, settle
from bench.requests import GroupMember, commit_requests, heartbeat_requests

_OFFSET_END = 2**62  # never started over
_HEARTBEAT_SECONDS = 3.0  # heartbeat.interval.ms of every client by default
_HEARTBEATS_UNTIL_IDLE = 4


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


class IdleGroups:
    """1,000 groups of 10 members that only send heartbeats, each on a connection of its own, evenly spread over 3 s."""

    name = "group-idle"
    metrics: Sequence[Metric] = (
        Metric("CPU", "% of a core", higher_is_better=False, goal=5.0, absolute_goal=True),
        Metric("memory for each member", "KB", higher_is_better=False),
    )

    def __init__(self, *, groups: int, seconds: float) -> None:
        self.title = f"{groups:,} idle groups of 10 members"
        self._groups = groups
        self._seconds = seconds

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        topic = f"{self.name}-{round_number}"
        peer.create_topic(topic, partitions=10)
        group_ids = [f"{self.name}-{round_number}-{number:04}" for number in range(self._groups)]
        memory_before = peer.broker.resident_bytes()
        try:
            await_coordinator(peer.broker.port, group_ids[:200])
            members: list[GroupMember] = []
            for start in range(0, len(group_ids), 50):
                members += settle(peer.broker.port, group_ids[start : start + 50], size=10, topic=topic)[1]
            percent, memory_after = self._heartbeats(peer, members, topic)
        finally:
            peer.drop_topic(topic)
        return {"CPU": percent, "memory for each member": (memory_after - memory_before) / 1024 / len(members)}

    def _heartbeats(self, peer: Peer, members: Sequence[GroupMember], topic: str) -> tuple[float, int]:
        """What the broker burns in percent of a core, and its memory, while all members send their heartbeats."""
        # Until every member has sent some: before that they are still new to the broker, and not idle.
        warmup_seconds = _HEARTBEATS_UNTIL_IDLE * _HEARTBEAT_SECONDS + 2
        load = Load(
            len(members),
            1,
            seconds=self._seconds + 1,
            warmup_seconds=warmup_seconds,
            requests_per_second=len(members) / _HEARTBEAT_SECONDS,
        )
        request = heartbeat_requests(members)
        command = loader_command(peer.broker.port, request, load, topic=topic, scratch_dir=peer.scratch_dir)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as loader:
            assert loader.stderr is not None
            loader.stderr.readline()  # it is connected
            time.sleep(warmup_seconds)
            cpu_before, started = peer.broker.cpu_seconds(), time.perf_counter()
            time.sleep(self._seconds)
            cpu_used = peer.broker.cpu_seconds() - cpu_before
            elapsed = time.perf_counter() - started
            memory_bytes = peer.broker.resident_bytes()
            printed, complaint = loader.communicate()
        if loader.returncode != 0:
            raise RuntimeError(f"{peer.name}: the loader failed: {complaint}")
        parse_result(printed)
        return 100 * cpu_used / elapsed, memory_bytes


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
