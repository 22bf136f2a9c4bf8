"""A leader with some partitions, and the fetcher that follows them on another broker."""

from collections.abc import Callable

from ottla.core.types import TopicPartition
from ottla.replication.fetcher import FetcherSettings, ReplicaFetcher
from ottla.replication.partition import Partition
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.testing.simulated_disk import SimulatedDisk
from tests.replication.following import (
    LEADER_ID,
    TOPIC_ID,
    HandLoop,
    LeaderLog,
    StandInLeader,
    fetcher_ports,
    following,
)
from tests.replication.partitions import HandReplicas
from tests.storage.log_making import open_log, read_all, values_of

EPOCH = 5


class Rig:
    """A leader with partitions of one topic, and the fetcher that follows them."""

    def __init__(self, config: LogConfig | None = None) -> None:
        self.loop = HandLoop()
        self.leader = StandInLeader(self.loop)
        self.replicas = HandReplicas()
        self.config = config
        self.truncations: list[Callable[[], None]] = []
        self.holds_truncations = False
        self.fetcher = ReplicaFetcher(
            LEADER_ID,
            self.leader,
            settings=FetcherSettings(),
            ports=fetcher_ports(self.loop, await_truncation=self._await),
        )

    def _await(self, log: Log, offset: int, on_done: Callable[[], None]) -> None:
        log.lower_recovery_point(offset)
        self.truncations.append(on_done)
        if not self.holds_truncations:
            self.loop.call_soon(on_done)

    def add(self, number: int = 0, *, leader_epoch: int = EPOCH, follows: bool = True) -> tuple[Log, Partition]:
        self.disk = SimulatedDisk()
        leader_log = open_log(SimulatedDisk(), directory=f"/leader/orders-{number}")
        partition = self.replicas.replicas.add(
            TopicPartition("orders", number),
            topic_id=TOPIC_ID,
            log=open_log(self.disk, self.config, directory=f"/data/orders-{number}"),
            state=following(leader_epoch),
        )
        self.leader.logs[(TOPIC_ID, number)] = LeaderLog(leader_log, leader_epoch=leader_epoch)
        if follows:
            self.fetcher.add(partition, leader_epoch=leader_epoch)
        return leader_log, partition

    def lead(self, number: int = 0) -> LeaderLog:
        return self.leader.logs[(TOPIC_ID, number)]

    def settle(self) -> None:
        """Until the follower waits at the leader for something new."""
        self.loop.run()
        for _ in range(100):
            self.leader.wake()
            self.loop.advance(3)

    def named(self, index: int = -1) -> list[int]:
        return [one.partition for _, partitions in self.leader.requests[index].topics for one in partitions]


def values(log: Log) -> list[bytes | None]:
    return values_of(read_all(log))
