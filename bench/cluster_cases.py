"""Cases of a cluster's rooms, without processes: what a controller costs as the cluster grows, what idle partitions
cost a follower's fetch, and how fast a simulated cluster runs."""

import gc
import json
import logging
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.model import Case, Metric
from bench.peers import Peer
from ottla.broker.handlers.follower_fetch import FollowerFetchHandler
from ottla.core.exchange import Deferred
from ottla.core.types import TopicPartition
from ottla.protocol.fetch_client_codec import encode_fetch_request
from ottla.protocol.fetch_codec import FetchArguments, FetchPartition, decode_fetch_request
from ottla.protocol.frames import parse_request_header
from ottla.testing.simulated_disk import SimulatedDisk
from ottla.testing.simulation.cluster import SimulatedCluster
from ottla.testing.simulation.requests import create_topic
from ottla.testing.simulation.run import RunSettings, SimulatedRun
from tests.replication.leaders import EPOCH, Leader, state_of
from tests.storage.log_making import open_log

_FAIL_OVER_S = 3.0
# Brokers and partitions, from small to large.
_GROWTH = ((10, 1_000), (10, 10_000), (20, 20_000), (35, 50_000), (50, 100_000))


class ControllerScale:
    """CPU seconds of a controller alone, with brokers that only answer, and the store in memory.

    Every partition is elected anew in the take-over: its brokers have all registered since its last election.
    """

    name = "controller"
    title = "controller, 10,000 partitions x 3 on 10 brokers"
    metrics: Sequence[Metric] = (
        Metric("take-over, CPU", "s", higher_is_better=False, goal=_FAIL_OVER_S, absolute_goal=True),
        Metric("all led again after a death, CPU", "s", higher_is_better=False, goal=_FAIL_OVER_S, absolute_goal=True),
    )

    def __init__(self, scale: float, *, shows_growth: bool) -> None:
        """`shows_growth`: also measure larger clusters, once, into `points`."""
        self._scale = scale
        self._shows_growth = shows_growth
        self.points: list[Mapping[str, float]] = []

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        del peer
        if self._shows_growth and round_number == 0:
            self.points = [_controller(brokers, int(many * self._scale)) for brokers, many in _GROWTH]
        point = _controller(10, int(10_000 * self._scale))
        return {
            "take-over, CPU": point["take_over_s"],
            "all led again after a death, CPU": point["fail_over_s"],
        }


def _controller(brokers: int, partitions: int) -> Mapping[str, float]:
    """In a process of its own: what else is in memory would cost each collection of garbage."""
    command = [sys.executable, "-m", "bench.controller_scale", "--json"]
    command += ["--brokers", str(brokers), "--partitions", str(partitions)]
    done = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2])
    point: Mapping[str, float] = json.loads(done.stdout)
    return point


class FollowerFetches:
    """A follower of one busy partition and many idle ones in one session. For each record: the append, the answer of
    the fetch that waits, the fetch that says that it is there."""

    name = "follower-fetch"
    title = "a follower's fetch, 1,000 idle partitions against 10"
    metrics: Sequence[Metric] = (
        Metric("cost ratio", "x", higher_is_better=False, goal=1.3, absolute_goal=True),
        Metric("1,000 idle partitions", "µs", higher_is_better=False),
    )
    _BLOCKS = 9
    _FETCHES = 500

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        del peer, round_number
        few, many = _Followed(10), _Followed(1_000)
        costs: dict[str, list[float]] = {"few": [], "many": []}
        gc.collect()
        for _ in range(self._BLOCKS):
            costs["few"].append(few.cost_us(self._FETCHES))
            costs["many"].append(many.cost_us(self._FETCHES))
        many_us = statistics.median(costs["many"])
        return {"cost ratio": many_us / statistics.median(costs["few"]), "1,000 idle partitions": many_us}


class _Followed(Leader):
    """A leader of one partition that gets records and of others that don't, and the session of one follower."""

    _VERSION = 16
    _TOPIC_ID = bytes(16)
    _FOLLOWER = 2

    def __init__(self, idle_partitions: int) -> None:
        state = state_of(1, 2, replicas=(1, 2))
        super().__init__(state)
        for number in range(1, idle_partitions + 1):
            log = open_log(SimulatedDisk(), None, directory=f"/data/orders-{number}")
            self.replicas.add(TopicPartition("orders", number), topic_id=self._TOPIC_ID, log=log, state=state)
        self._handler = FollowerFetchHandler(self.replicas, max_bytes=1 << 20, new_session_id=lambda: 7)
        self._epoch = 0
        self._fetch([self._at(0, number) for number in range(idle_partitions + 1)])

    def cost_us(self, fetches: int) -> float:
        started = time.process_time()
        for _ in range(fetches):
            self._fetch([self._at(self.partition.log.log_end_offset)])  # answered with the high watermark
            waiting = self._fetch([])
            assert isinstance(waiting, Deferred)
            self.appended(1)
            self.hand.turn()
            assert waiting.is_complete
        elapsed = time.process_time() - started
        assert self.high_watermark >= self.partition.log.log_end_offset - 1, "the follower's progress was not noted"
        return 1e6 * elapsed / fetches

    def _at(self, offset: int, number: int = 0) -> FetchPartition:
        return FetchPartition(number, EPOCH, offset, EPOCH if offset else -1, 0, 1 << 20, -1)

    def _fetch(self, wanted: list[FetchPartition]) -> object:
        """Through the codec, as it comes from the network; the first one begins the session."""
        arguments = FetchArguments(
            self._FOLLOWER,
            self._FOLLOWER * 10,
            500 if self._epoch else 0,
            1,
            1 << 20,
            0,
            7 if self._epoch else 0,
            self._epoch,
            [(self._TOPIC_ID, wanted)] if wanted else [],
            [],
            "",
        )
        self._epoch += 1
        frame = memoryview(encode_fetch_request(self._VERSION, 1, "follower", arguments))[4:]
        request = decode_fetch_request(frame, parse_request_header(frame).body_position, self._VERSION)
        return self._handler.handle(request, self._VERSION, 1)


class SimulationSpeed:
    """Simulated seconds for one of CPU, three brokers, three partitions with three replicas.

    The load is that of `ottla-sim`: two producers with about ten batches a second, each fsynced on every replica, three
    readers, a group of two; with its faults and its rules.
    """

    name = "simulation"
    title = "a simulated cluster of 3 brokers"
    metrics: Sequence[Metric] = (
        Metric("without load", "s/s", goal=200, absolute_goal=True),
        Metric("load and faults of ottla-sim", "s/s"),
        Metric("steps under that load", "/s"),
    )

    def __init__(self, scale: float) -> None:
        self._seconds = max(60 * scale, 10)

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        del peer
        logger = logging.getLogger("ottla")
        level = logger.level
        logger.setLevel(logging.CRITICAL)  # what brokers under faults have to say is no part of it
        try:
            return self._measure(round_number + 1)
        finally:
            logger.setLevel(level)

    def _measure(self, seed: int) -> Mapping[str, float]:
        SimulatedRun(99, RunSettings(duration_s=2)).run()  # what is imported late is imported now
        cluster = _replicating()
        started = time.process_time()
        cluster.run_for(self._seconds)
        idle_s = time.process_time() - started
        run = SimulatedRun(seed, RunSettings(duration_s=self._seconds))
        started = time.process_time()
        result = run.run()
        loaded_s = time.process_time() - started
        return {
            "without load": self._seconds / idle_s,
            "load and faults of ottla-sim": result.simulated_s / loaded_s,
            "steps under that load": result.steps / result.simulated_s,
        }


def _replicating() -> SimulatedCluster:
    """Followers have found their leaders, and wait there."""
    cluster = SimulatedCluster(1, brokers=3)
    cluster.start()
    client = cluster.client("admin")
    for broker_id in cluster.brokers:  # one of them is the controller
        created = create_topic(client, broker_id, "orders", partitions=3, replication_factor=3)
        cluster.run_until(lambda created=created: created.is_there, within_s=60)  # type: ignore[misc]
    cluster.run_for(5)
    leaders = [
        partition
        for broker in cluster.brokers.values()
        if broker.core is not None
        for partition in broker.core.replicas.partitions.values()
        if partition.is_led_here
    ]
    assert len(leaders) == 3
    assert all(len(partition.state.isr) == 3 for partition in leaders), "nothing is replicated"
    return cluster


def cluster_cases(scale: float, *, shows_growth: bool) -> tuple[ControllerScale, Sequence[Case]]:
    """The first has points to be drawn."""
    controller = ControllerScale(scale, shows_growth=shows_growth)
    return controller, [controller, FollowerFetches(), SimulationSpeed(scale)]
