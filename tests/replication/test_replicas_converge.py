"""Any history of appends, elections, half-done fetches and crashes: once the fetchers settle, all logs are the same.

Three brokers with a replica each, on simulated disks that lose with the power what was not fsynced. Elections may be
unclean, so what was read may be gone; but no log may keep what its leader does not have.
"""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.cluster import BrokerEndpoint, BrokerInfo, PartitionState
from ottla.replication.fetcher import FetcherPorts, FetcherSettings
from ottla.replication.fetchers import ReplicaFetchers
from ottla.replication.replicas import Replicas
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.testing.simulated_disk import SimulatedDisk
from tests.replication.following import TOPIC_ID, HandLoop, LeaderLog, StandInLeader
from tests.replication.partitions import HandReplicas
from tests.storage.hand_driven import HandBackground
from tests.storage.log_making import NOW_MS, batch, flush, headers_of, read_all, values_of
from tests.storage.managed_logs import ORDERS, ManagedLogs

pytestmark = pytest.mark.slow

BROKERS = (1, 2, 3)
CONFIG = LogConfig(segment_bytes=400, file_delete_delay_ms=0, index_interval_bytes=100)


class Replica:
    """One broker: its disk survives it."""

    def __init__(self, broker_id: int, cluster: "Cluster") -> None:
        self.broker_id = broker_id
        self.cluster = cluster
        self.disk = SimulatedDisk(cluster.random.getrandbits(32))
        self.is_running = False
        self.high_watermark = 0
        self.start()

    def start(self) -> None:
        self.background = HandBackground()
        self.managed = ManagedLogs(self.disk, config=CONFIG, background=self.background)
        if self.managed.manager.get(ORDERS) is None:
            self.managed.create()
        self.background.run_all()
        manager = self.managed.manager
        self.loop = HandLoop()
        replicas = Replicas(
            HandReplicas().waiting,
            broker_id=self.broker_id,
            request_flush=lambda log: None,
            report_storage_error=lambda log, error: None,
            truncate_log=lambda log, offset: manager.truncate_log(log, offset, NOW_MS),
            restart_log=lambda log, offset: manager.restart_log(log, offset, NOW_MS),
        )
        self.partition = replicas.add(
            ORDERS, topic_id=TOPIC_ID, log=self.managed.log(), state=PartitionState(-1, -1, (), BROKERS)
        )
        self.partition.restore_high_watermark(self.high_watermark)
        self.fetchers = ReplicaFetchers(
            replicas.partitions,
            open_channel=self.cluster.open_channel(self),
            settings=FetcherSettings(max_bytes=300, response_max_bytes=600),
            ports=FetcherPorts(
                self.broker_id, lambda: 1, lambda: NOW_MS, self.loop, Random(1), manager.await_truncation
            ),
        )
        self.is_running = True

    @property
    def log(self) -> Log:
        return self.partition.log

    def kill(self, *, with_power: bool) -> None:
        self.fetchers.stop()
        self.is_running = False
        if with_power:
            self.disk = self.disk.crash()
        self.high_watermark = 0

    def step(self, turns: int) -> None:
        """Some turns of the loop, and some work in the background."""
        for _ in range(turns):
            if self.background.waiting and self.cluster.random.random() < 0.5:
                self.background.run_one()
            if self.loop.soon:
                self.loop.soon.pop(0)()
            else:
                self.loop.advance(20)


class Cluster:
    """The controller is the test itself."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.epoch = 0
        self.leader_id = 1
        self.written = 0
        self.leader_log: LeaderLog | None = None
        self.channels: dict[tuple[int, int], StandInLeader] = {}  # of a follower to a leader
        self.replicas = {broker_id: Replica(broker_id, self) for broker_id in BROKERS}
        self.elect(1)

    def open_channel(self, follower: Replica) -> Callable[[BrokerInfo], StandInLeader]:
        def open_channel(info: BrokerInfo) -> StandInLeader:
            channel = StandInLeader(follower.loop)
            self.channels[(follower.broker_id, info.broker_id)] = channel
            leader = self.replicas[info.broker_id]
            if leader.is_running and info.broker_id == self.leader_id and self.leader_log is not None:
                channel.logs[(TOPIC_ID, 0)] = self.leader_log
            return channel

        return open_channel

    def elect(self, broker_id: int) -> None:
        """Clean or not: any replica that runs."""
        self.epoch += 1
        self.leader_id = broker_id
        leader = self.replicas[broker_id]
        leader.log.leader_epochs.assign(self.epoch, leader.log.log_end_offset)
        self.leader_log = LeaderLog(leader.log, leader_epoch=self.epoch)
        self.leader_log.high_watermark = leader.partition.high_watermark
        for (_, source), channel in self.channels.items():
            channel.logs = {(TOPIC_ID, 0): self.leader_log} if source == broker_id else {}
        for replica in self.replicas.values():
            if replica.is_running:
                self.tell(replica)

    def tell(self, replica: Replica) -> None:
        replica.partition.state = PartitionState(self.leader_id, self.epoch, BROKERS, BROKERS)
        if replica.broker_id == self.leader_id:
            replica.fetchers.on_leading(ORDERS, self.epoch)
        else:
            info = BrokerInfo(self.leader_id, (BrokerEndpoint("P", "h", 1),), None)
            replica.fetchers.on_following(ORDERS, self.epoch, info)

    @property
    def leader(self) -> Replica:
        return self.replicas[self.leader_id]

    def do(self, step: str) -> None:
        random = self.random
        running = [replica for replica in self.replicas.values() if replica.is_running]
        replica = random.choice(running)
        if step == "append":
            values = [b"%d/%d" % (self.epoch, self.written + number) for number in range(random.randint(1, 3))]
            self.written += len(values)
            self.leader.log.append_as_leader(batch(*values), leader_epoch=self.epoch, now_ms=NOW_MS)
            self.wake()
        elif step == "fetch":
            if replica is not self.leader:
                replica.step(random.randint(1, 8))
        elif step == "commit":
            assert self.leader_log is not None
            ends = [replica.log.log_end_offset for replica in running]
            self.leader_log.high_watermark = max(self.leader_log.high_watermark, min(ends))
            self.leader.partition.high_watermark = self.leader_log.high_watermark
            self.wake()
        elif step == "flush":
            flush(replica.log)
        elif step == "checkpoint":
            replica.managed.manager.checkpoint_recovery_points()
            replica.background.run_all()
        elif step == "delete records":
            log = self.leader.log
            high_watermark = min(self.leader.partition.high_watermark, log.log_end_offset)
            log.advance_log_start_offset(
                random.randint(log.log_start_offset, max(log.log_start_offset, high_watermark))
            )
            for path in log.delete_old_segments(NOW_MS, high_watermark=high_watermark):
                self.leader.disk.remove(path)
            self.wake()
        elif step == "elect":
            self.elect(replica.broker_id)
        elif step in ("power", "kill"):
            self.restart(replica, with_power=step == "power")

    def restart(self, replica: Replica, *, with_power: bool) -> None:
        """A broker dies and comes back; somebody else leads meanwhile, if it led."""
        replica.kill(with_power=with_power)
        if replica is self.leader:
            self.elect(self.random.choice([one.broker_id for one in self.replicas.values() if one.is_running]))
        replica.start()
        self.tell(replica)

    def wake(self) -> None:
        for (_, source), channel in list(self.channels.items()):
            if source == self.leader_id:
                channel.wake()

    def settle(self) -> None:
        for _ in range(60):
            for replica in self.replicas.values():
                replica.background.run_all()
                replica.loop.advance(1_000)
            self.wake()

    def check(self) -> None:
        leader_log = self.leader.log
        records = read_all(leader_log)
        assert [record.offset for record in records] == list(
            range(leader_log.log_start_offset, leader_log.log_end_offset)
        )
        for replica in self.replicas.values():
            log = replica.log
            assert replica.fetchers.figures().stopped_partitions == 0
            assert log.log_end_offset == leader_log.log_end_offset
            start = max(log.log_start_offset, leader_log.log_start_offset)
            assert start <= leader_log.log_end_offset
            assert values_of(read_all(log, start)) == values_of(read_all(leader_log, start)), replica.broker_id
            own = {header.base_offset: header for header in headers_of(log) if header.base_offset >= start}
            theirs = {header.base_offset: header for header in headers_of(leader_log) if header.base_offset >= start}
            assert own == theirs
            for record in records:
                if record.offset >= start:
                    epochs = log.leader_epochs.epoch_of(record.offset), leader_log.leader_epochs.epoch_of(record.offset)
                    assert epochs[0] == epochs[1], record.offset


STEPS = (
    *["append"] * 6,
    *["fetch"] * 8,
    *["flush"] * 2,
    *("commit", "checkpoint", "elect", "power", "kill", "delete records"),
)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.lists(st.sampled_from(STEPS), min_size=5, max_size=80))
def test_logs_are_the_same_after_any_history(seed: int, steps: list[str]) -> None:
    cluster = Cluster(seed)
    for step in steps:
        cluster.do(step)
    cluster.settle()
    cluster.check()
    # And they go on from there.
    cluster.do("append")
    cluster.settle()
    cluster.check()
