"""What groups cost that do nothing, and what the least of it is: the same heartbeats at a program that only answers."""

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.compiling import compiled
from bench.loader import Load, LoadError, loader_command, parse_result
from bench.model import Metric
from bench.peers import Peer
from bench.raw_groups import await_coordinator, settle
from bench.requests import GroupMember, heartbeat_requests
from interop import process_usage

_HEARTBEAT_SECONDS: Final = 3.0  # heartbeat.interval.ms of every client by default
_HEARTBEATS_UNTIL_IDLE: Final = 4
_GATHERED_MS: Final = 10  # as the broker does with batched connections


class Usage(NamedTuple):
    """Of one process, while all members send their heartbeats to it."""

    cpu_percent: float
    resident_bytes: int


class Process(NamedTuple):
    port: int
    pid: int


class IdleGroups:
    """1,000 groups of 10 members that only send heartbeats, each on a connection of its own, evenly spread over 3 s."""

    name = "group-idle"
    metrics: Sequence[Metric] = (
        Metric("CPU", "% of a core", higher_is_better=False, goal=5.0, absolute_goal=True),
        Metric("CPU of a C program that only receives and sends", "% of a core", higher_is_better=False),
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
            broker = self._usage(Process(peer.broker.port, peer.broker.pid), members, peer.scratch_dir)
            with _answerer() as answerer:
                least = self._usage(answerer, members, peer.scratch_dir)
        finally:
            peer.drop_topic(topic)
        return {
            "CPU": broker.cpu_percent,
            "CPU of a C program that only receives and sends": least.cpu_percent,
            "memory for each member": (broker.resident_bytes - memory_before) / 1024 / len(members),
        }

    def _usage(self, process: Process, members: Sequence[GroupMember], scratch_dir: Path) -> Usage:
        # Until every member has sent some: before that they are still new to the broker, and not idle.
        warmup_seconds = _HEARTBEATS_UNTIL_IDLE * _HEARTBEAT_SECONDS + 2
        load = Load(
            len(members),
            1,
            seconds=self._seconds + 1,
            warmup_seconds=warmup_seconds,
            requests_per_second=len(members) / _HEARTBEAT_SECONDS,
        )
        requests = heartbeat_requests(members)
        command = loader_command(process.port, requests, load, topic=self.name, scratch_dir=scratch_dir)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as loader:
            try:
                assert loader.stderr is not None
                loader.stderr.readline()  # it is connected
                time.sleep(warmup_seconds)
                cpu_before, started = process_usage.cpu_seconds(process.pid), time.perf_counter()
                time.sleep(self._seconds)
                cpu_used = process_usage.cpu_seconds(process.pid) - cpu_before
                elapsed = time.perf_counter() - started
                resident_bytes = process_usage.resident_bytes(process.pid)
                printed, complaint = loader.communicate()
            finally:
                loader.kill()
        if loader.returncode != 0:
            raise LoadError(complaint)
        parse_result(printed)
        return Usage(100 * cpu_used / elapsed, resident_bytes)


@contextmanager
def _answerer() -> Iterator[Process]:
    command = [str(compiled("answerer")), str(_GATHERED_MS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Process(int(process.stdout.readline()), process.pid)
        finally:
            process.kill()
