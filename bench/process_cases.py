"""What a broker costs as a process: start to first answer, resident memory, idle CPU, memory under sustained load."""

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.loader import Load, loader_command, parse_result
from bench.model import Metric
from bench.peers import Peer
from bench.raw_cases import KILOBYTE, MEGABYTE, batches_of, one_record
from bench.requests import produce_request

_IDLE_SECONDS = 4.0
_SAMPLE_SECONDS = 5.0


class Start:
    """A fresh broker on an empty folder in each round; the running peer is not touched."""

    name = "start"
    title = "start and idle"
    metrics: Sequence[Metric] = (
        Metric("start to first answer", "s", higher_is_better=False, goal=0.1),
        Metric("idle RSS", "MB", higher_is_better=False, goal=0.125),
        Metric("idle CPU", "%", higher_is_better=False),
    )

    def __init__(self, work_dir: Path) -> None:
        self._work_dir = work_dir

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        del round_number
        with Peer(peer.name, self._work_dir) as fresh:
            time.sleep(_IDLE_SECONDS / 2)
            cpu_before, waited_from = fresh.broker.cpu_seconds(), time.perf_counter()
            time.sleep(_IDLE_SECONDS)
            cpu_used = fresh.broker.cpu_seconds() - cpu_before
            return {
                "start to first answer": fresh.broker.seconds_to_first_answer,
                "idle RSS": fresh.broker.resident_bytes() / 1e6,
                "idle CPU": 100 * cpu_used / (time.perf_counter() - waited_from),
            }


class CleanStart:
    """A restart after a clean stop with many partitions, against one with none: what each partition costs."""

    name = "clean-start"
    title = "restart after a clean stop"
    metrics: Sequence[Metric] = (
        Metric("for each partition", "ms", higher_is_better=False, goal=0.2, absolute_goal=True),
    )

    def __init__(self, work_dir: Path, *, partitions: int) -> None:
        self._work_dir = work_dir
        self._partitions = partitions

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        del round_number
        with Peer(peer.name, self._work_dir) as fresh:
            fresh.broker.stop()
            fresh.broker.start()
            empty_seconds = fresh.broker.seconds_to_first_answer
            fresh.create_topic("many", partitions=self._partitions)
            fresh.broker.stop()
            fresh.broker.start()
            # Announced and loaded: the first answer may come before the logs are open.
            fresh.admin.list_topics("many", timeout=30)
            full_seconds = fresh.broker.seconds_to_first_answer
        return {"for each partition": max(0.0, full_seconds - empty_seconds) * 1000 / self._partitions}


class Sustained:
    """Steady mixed load for minutes, paced so that all peers do the same work: does the memory stay flat?

    `grown` is the highest RSS in the last fifth over the highest in the second fifth.
    """

    name = "sustained"
    title = "steady load, 40 MB/s and 2,000 one-record requests/s"
    metrics: Sequence[Metric] = (
        Metric("RSS at the end", "MB", higher_is_better=False, goal=0.1),
        Metric("RSS grown", "%", higher_is_better=False, goal=5.0, absolute_goal=True),
    )

    def __init__(self, work_dir: Path, *, minutes: float) -> None:
        self._work_dir = work_dir
        self._seconds = minutes * 60
        self.samples: dict[str, list[float]] = {}

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        del round_number
        overrides = {"log.retention.check.interval.ms": "5000"}
        with Peer(peer.name, self._work_dir, overrides=overrides) as fresh:
            config = {"retention.bytes": str(128 * MEGABYTE), "segment.bytes": str(32 * MEGABYTE)}
            for topic in ("bulk", "single"):
                fresh.create_topic(topic, partitions=4, config=config)
            loads = {
                "bulk": (batches_of(16 * KILOBYTE)(), Load(8, 5, partitions=4, requests_per_second=2500)),
                "single": (one_record(), Load(20, 1, partitions=4, requests_per_second=2000)),
            }
            processes: list[subprocess.Popen[str]] = []
            try:
                for topic, (batch, load) in loads.items():
                    load = load._replace(seconds=self._seconds, warmup_seconds=0.0)
                    request = produce_request(topic, batch)
                    command = loader_command(
                        fresh.broker.port, request, load, topic=topic, scratch_dir=fresh.scratch_dir
                    )
                    processes.append(
                        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    )
                samples = []
                while any(process.poll() is None for process in processes):
                    time.sleep(min(_SAMPLE_SECONDS, self._seconds / 20))
                    samples.append(fresh.broker.resident_bytes() / 1e6)
                for process in processes:
                    printed, complaint = process.communicate()
                    if process.returncode != 0:
                        raise RuntimeError(f"{peer.name}: the loader failed: {complaint}")
                    parse_result(printed)
            finally:
                for process in processes:
                    process.kill()
        self.samples[peer.name] = samples
        fifth = max(1, len(samples) // 5)
        early, late = max(samples[fifth : 2 * fifth]), max(samples[-fifth:])
        return {"RSS at the end": samples[-1], "RSS grown": 100 * (late / early - 1)}
