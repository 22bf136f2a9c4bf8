"""Cases on our own rooms, without a broker: does the cost stay the same as a log grows, and as more requests wait?"""

import gc
import os
import random
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.model import Case, Metric
from bench.peers import Peer
from bench.requests import BATCH_OVERHEAD_BYTES, batch_of_size
from bench.sparse_disk import SparseDisk
from ottla.core.errors import ErrorCode
from ottla.core.timing_wheel import TimingWheel
from ottla.core.types import TopicPartition
from ottla.purgatory.purgatory import DelayedOperation, Purgatory
from ottla.storage.log import Log
from ottla.storage.log_config import LOG_APPEND_TIME, LogConfig
from ottla.storage.log_loading import load_log
from ottla.storage.open_files import OpenFiles
from ottla.storage.real_disk import RealDisk

_BATCH_BYTES = 64 * 1024
_SMALL_LOG_BYTES = 10 * 1024 * 1024
_BIG_LOG_BYTES = 10 * 1024 * 1024 * 1024
# Append time, so that each batch has a time of its own without being packed anew.
_CONFIG = LogConfig(message_timestamp_type=LOG_APPEND_TIME)
_FIRST_TIME_MS = 1_700_000_000_000
_BLOCKS = 9
_FLAT = 1.25  # what two equal costs may differ by on a machine that does other things too


class LogGrowth:
    """Append, fetch and lookup by time on a log of 10 MB and one of 10 GB (sparse: 4 KB of each batch is written)."""

    name = "log-growth"
    title = "log of 10 GB against 10 MB"
    metrics: Sequence[Metric] = tuple(
        metric
        for work in ("append", "fetch", "lookup by time")
        for metric in (
            Metric(f"{work}, cost ratio", "x", higher_is_better=False, goal=_FLAT, absolute_goal=True),
            Metric(f"{work}, 10 GB", "µs", higher_is_better=False),
        )
    )

    def __init__(self, work_dir: Path) -> None:
        self._work_dir = work_dir
        self._operations = 500

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        del peer
        folder = self._work_dir / f"growth-{round_number}"
        try:
            small = _filled_log(folder / "small-0", log_bytes=_SMALL_LOG_BYTES)
            big = _filled_log(folder / "big-0", log_bytes=_BIG_LOG_BYTES)
            os.sync()  # or writing back the new files would slow the appends of whoever comes first
            figures: dict[str, float] = {}
            # Appending comes last: it makes the small log grow.
            for work, run in (("fetch", _fetch), ("lookup by time", _look_up), ("append", _append)):
                costs: dict[str, list[float]] = {"small": [], "big": []}
                for _ in range(_BLOCKS + 1):
                    costs["small"].append(_cost_us(run, small, self._operations))
                    costs["big"].append(_cost_us(run, big, self._operations))
                # Each block looks at the same places, all over the log. The first one brings them into the page
                # cache and is left out: what a cold disk costs is not what is asked here.
                big_us = statistics.median(costs["big"][1:])
                figures[f"{work}, cost ratio"] = big_us / statistics.median(costs["small"][1:])
                figures[f"{work}, 10 GB"] = big_us
            return figures
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _filled_log(directory: Path, *, log_bytes: int) -> Log:
    """Filled through the log's own way of appending, closed, and loaded again on the real disk."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    log = load_log(
        OpenFiles(SparseDisk()),
        str(directory),
        _CONFIG,
        recovery_point=0,
        log_start_offset=0,
        was_clean=False,
        now_ms=_FIRST_TIME_MS,
    )
    batch, header = _fresh_batch()
    for number in range(log_bytes // _BATCH_BYTES):
        batch[:BATCH_OVERHEAD_BYTES] = header
        info = log.append_as_leader(batch, leader_epoch=0, now_ms=_FIRST_TIME_MS + number)
        assert info.error_code == ErrorCode.NONE, info
    end_offset = log.log_end_offset
    assert log.size_bytes == log_bytes
    log.close(now_ms=_FIRST_TIME_MS)
    return load_log(
        OpenFiles(RealDisk()),
        str(directory),
        _CONFIG,
        recovery_point=end_offset,
        log_start_offset=0,
        was_clean=True,
        now_ms=_FIRST_TIME_MS,
    )


def _fresh_batch() -> tuple[memoryview, bytes]:
    """A batch as a producer sends it, and its header: an append writes into the header, so it is put back each time."""
    data = batch_of_size(_BATCH_BYTES, value_bytes=1000).data
    return memoryview(bytearray(data)), data[:BATCH_OVERHEAD_BYTES]


def _cost_us(run: Callable[[Log, int, random.Random], None], log: Log, operations: int) -> float:
    choice = random.Random(7)
    started = time.perf_counter()
    run(log, operations, choice)
    return 1e6 * (time.perf_counter() - started) / operations


def _append(log: Log, operations: int, choice: random.Random) -> None:
    del choice
    batch, header = _fresh_batch()
    size_before = log.size_bytes
    for _ in range(operations):
        batch[:BATCH_OVERHEAD_BYTES] = header
        log.append_as_leader(batch, leader_epoch=0, now_ms=_FIRST_TIME_MS + 10**9)
    assert log.size_bytes == size_before + operations * _BATCH_BYTES, "appends were refused"


def _fetch(log: Log, operations: int, choice: random.Random) -> None:
    end_offset = log.log_end_offset
    for _ in range(operations):
        found = log.read(choice.randrange(end_offset), max_bytes=_BATCH_BYTES)
        assert found.slice is not None


def _look_up(log: Log, operations: int, choice: random.Random) -> None:
    batches = log.size_bytes // _BATCH_BYTES
    for _ in range(operations):
        assert log.offset_for_timestamp(_FIRST_TIME_MS + choice.randrange(batches)) is not None


class WaitingFetches:
    """Operations that wait on a partition until their time is up: 100,000 of them against 10,000, cost for each."""

    name = "waiting-fetches"
    title = "waiting fetches that expire"
    metrics: Sequence[Metric] = (
        Metric("100,000 : 10,000, cost ratio", "x", higher_is_better=False, goal=_FLAT, absolute_goal=True),
        Metric("100,000, each", "µs", higher_is_better=False),
    )

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        del peer, round_number
        few_us = statistics.median(_expire_us(10_000) for _ in range(10))
        many_us = statistics.median(_expire_us(100_000) for _ in range(3))
        return {"100,000 : 10,000, cost ratio": many_us / few_us, "100,000, each": many_us}


class _Waiting(DelayedOperation):
    __slots__ = ()

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        pass


def _expire_us(count: int) -> float:
    wheel = TimingWheel()
    purgatory = Purgatory(wheel)
    partitions = [TopicPartition("topic", number) for number in range(1000)]
    choice = random.Random(count)
    gc.collect()
    started = time.perf_counter()
    for number in range(count):
        keys = (partitions[number % 1000], partitions[(number + 1) % 1000])
        purgatory.try_complete_else_watch(_Waiting(), keys, timeout_ms=choice.randrange(1, 30_000), now_ms=0)
    while (next_ms := wheel.next_expiry_ms()) is not None:
        wheel.advance(next_ms)
    elapsed = time.perf_counter() - started
    assert purgatory.delayed == 0
    return 1e6 * elapsed / count


def own_cases(work_dir: Path) -> Sequence[Case]:
    return [LogGrowth(work_dir), WaitingFetches()]
