"""Which partition is fetched from which broker, as leaders and addresses change."""

from ottla.core.cluster import BrokerEndpoint, BrokerInfo
from ottla.core.types import TopicPartition
from ottla.replication.fetcher import FetcherSettings
from ottla.replication.fetchers import ReplicaFetchers
from ottla.storage.log_config import LogConfig
from ottla.testing.simulated_disk import SimulatedDisk
from tests.replication.follower_rig import values
from tests.replication.following import (
    TOPIC_ID,
    HandLoop,
    LeaderLog,
    StandInLeader,
    fetcher_ports,
    following,
)
from tests.replication.partitions import HandReplicas
from tests.storage.log_making import append, flush, open_log

ORDERS = TopicPartition("orders", 0)
EPOCH = 5


def broker(broker_id: int, *, port: int = 9092, epoch: int = 1) -> BrokerInfo:
    return BrokerInfo(broker_id, (BrokerEndpoint("PLAINTEXT", f"host-{broker_id}", port),), None, epoch)


class Rig:
    """A follower of one partition, and what it has connected to."""

    def __init__(self, config: LogConfig | None = None) -> None:
        self.loop = HandLoop()
        self.replicas = HandReplicas()
        self.channels: list[tuple[BrokerInfo, StandInLeader]] = []
        self.logs = {
            broker_id: LeaderLog(open_log(SimulatedDisk(), directory=f"/{broker_id}/orders-0"), leader_epoch=EPOCH)
            for broker_id in (2, 3)
        }
        self.partition = self.replicas.replicas.add(
            ORDERS, topic_id=TOPIC_ID, log=open_log(SimulatedDisk(), config), state=following(EPOCH)
        )
        self.fetchers = ReplicaFetchers(
            self.replicas.replicas.partitions,
            open_channel=self._open,
            settings=FetcherSettings(),
            ports=fetcher_ports(self.loop),
        )

    def _open(self, info: BrokerInfo) -> StandInLeader:
        channel = StandInLeader(self.loop)
        channel.logs[(TOPIC_ID, 0)] = self.logs[info.broker_id]
        self.channels.append((info, channel))
        return channel

    def write(self, broker_id: int, value: bytes) -> None:
        leader = self.logs[broker_id]
        append(leader.log, value, leader_epoch=leader.leader_epoch)
        for _, channel in self.channels:
            channel.wake()
        self.loop.run()

    def elect(self, broker_id: int, epoch: int) -> None:
        self.partition.state = following(epoch, leader=broker_id)
        for leader in self.logs.values():
            leader.leader_epoch = epoch


def test_partition_is_fetched_from_its_leader() -> None:
    rig = Rig()
    rig.fetchers.on_following(ORDERS, EPOCH, broker(2))
    rig.write(2, b"a")
    assert values(rig.partition.log) == [b"a"]
    assert [info.broker_id for info, _ in rig.channels] == [2]


def test_nothing_is_opened_without_a_partition_to_fetch() -> None:
    rig = Rig()
    rig.fetchers.update_brokers([broker(2), broker(3)])
    rig.loop.run()
    assert rig.channels == []


def test_leader_that_is_not_known_yet_is_waited_for() -> None:
    rig = Rig()
    rig.fetchers.on_following(ORDERS, EPOCH)
    rig.write(2, b"a")
    assert rig.partition.log.log_end_offset == 0
    rig.fetchers.update_brokers([broker(2), broker(3)])
    rig.loop.run()
    assert values(rig.partition.log) == [b"a"]


def test_another_leader_is_another_fetcher() -> None:
    rig = Rig()
    rig.fetchers.on_following(ORDERS, EPOCH, broker(2))
    rig.write(2, b"a")
    rig.elect(3, EPOCH + 1)
    append(rig.logs[3].log, b"a", leader_epoch=EPOCH)
    rig.fetchers.on_following(ORDERS, EPOCH + 1, broker(3))
    rig.loop.advance(10)
    rig.write(3, b"b")
    rig.write(2, b"never")
    assert values(rig.partition.log) == [b"a", b"b"]


def test_same_state_said_again_changes_nothing() -> None:
    rig = Rig()
    for _ in range(3):
        rig.fetchers.on_following(ORDERS, EPOCH, broker(2))
        rig.loop.advance(10)
    ((_, channel),) = rig.channels
    assert len(channel.requests) == 2


def test_leader_does_not_fetch() -> None:
    rig = Rig()
    rig.fetchers.on_following(ORDERS, EPOCH, broker(2))
    rig.loop.run()
    rig.fetchers.on_leading(ORDERS, EPOCH + 1)
    rig.loop.advance(10)
    rig.write(2, b"a")
    assert rig.partition.log.log_end_offset == 0


def test_partition_without_a_leader_is_not_fetched() -> None:
    rig = Rig()
    rig.fetchers.on_following(ORDERS, EPOCH, broker(2))
    rig.loop.run()
    rig.elect(-1, EPOCH + 1)
    rig.fetchers.on_following(ORDERS, EPOCH + 1)
    rig.loop.advance(10)
    rig.write(2, b"a")
    assert rig.partition.log.log_end_offset == 0


def test_unknown_partition_is_ignored() -> None:
    rig = Rig()
    rig.fetchers.on_following(TopicPartition("orders", 9), EPOCH, broker(2))
    rig.fetchers.remove(TopicPartition("orders", 9))
    assert rig.channels == []


def test_broker_that_moved_is_reached_at_its_new_address() -> None:
    rig = Rig()
    rig.fetchers.on_following(ORDERS, EPOCH, broker(2))
    rig.loop.run()
    rig.fetchers.update_brokers([broker(2)])
    assert len(rig.channels) == 1
    rig.fetchers.update_brokers([broker(2, port=9999, epoch=2)])
    rig.loop.run()
    rig.write(2, b"a")
    (_, old), (info, _) = rig.channels
    assert old.is_closed
    assert info.endpoints[0].port == 9999
    assert values(rig.partition.log) == [b"a"]


def test_fsync_is_said_to_the_leader() -> None:
    rig = Rig(LogConfig(flush_messages=1))
    rig.fetchers.on_following(ORDERS, EPOCH, broker(2))
    rig.loop.run()
    rig.write(2, b"a")
    rig.loop.advance(5)
    ((_, channel),) = rig.channels
    count = len(channel.requests)
    flush(rig.partition.log)
    rig.fetchers.on_flushed(ORDERS)
    rig.fetchers.on_flushed(TopicPartition("others", 0))
    rig.loop.run()
    ((_, (asked,)),) = channel.requests[count].topics
    assert (asked.fetch_offset, asked.durable_offset) == (1, -1)


def test_figures_say_how_far_behind_and_how_many_stand_still() -> None:
    rig = Rig()
    assert rig.fetchers.figures() == (0, 0)
    rig.fetchers.on_following(ORDERS, EPOCH, broker(2))
    rig.loop.run()
    rig.logs[2].high_watermark = 10
    rig.write(2, b"a")
    assert rig.fetchers.figures() == (9, 0)
    rig.logs[2].spoil = lambda records: records[:-1] + b"x"
    rig.write(2, b"b")
    rig.loop.advance(10_000)
    assert rig.fetchers.figures().stopped_partitions == 1
    # The controller's next word on it is a new beginning.
    rig.logs[2].spoil = None
    rig.elect(2, EPOCH + 1)
    rig.fetchers.on_following(ORDERS, EPOCH + 1, broker(2))
    rig.loop.advance(10)
    assert rig.fetchers.figures().stopped_partitions == 0
    assert values(rig.partition.log) == [b"a", b"b"]


def test_stop_closes_everything() -> None:
    rig = Rig()
    rig.fetchers.on_following(ORDERS, EPOCH, broker(2))
    rig.loop.run()
    rig.fetchers.stop()
    rig.write(2, b"a")
    rig.fetchers.on_following(ORDERS, EPOCH + 1, broker(3))
    rig.loop.advance(10_000)
    assert rig.partition.log.log_end_offset == 0
    assert [channel.is_closed for _, channel in rig.channels] == [True]
