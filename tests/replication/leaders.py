"""A leader whose followers, store and clock are the test's."""

from collections.abc import Callable

from ottla.core.cluster import PartitionState
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerEpoch, BrokerId, TopicPartition
from ottla.replication.acks_wait import AcksWait
from ottla.replication.follower_fetches import FollowerFetches
from ottla.replication.partition import ACKS_ALL, Partition
from ottla.replication.ports import ClusterPorts, IsrRefused, IsrResult, IsrUnknown, IsrWritten
from ottla.storage.log_config import LogConfig
from tests.replication.partitions import BROKER_ID, ORDERS, HandReplicas
from tests.storage.log_making import NOW_MS, batch

EPOCH = 4
LAG_MS = 10_000
REFUSED = IsrRefused("the node has another version")
UNKNOWN = IsrUnknown("connection lost")


def state_of(
    *isr: BrokerId,
    leader: BrokerId = BROKER_ID,
    epoch: int = EPOCH,
    replicas: tuple[BrokerId, ...] = (1, 2, 3),
    version: int = 0,
) -> PartitionState:
    return PartitionState(leader, epoch, isr or (1, 2, 3), replicas, version)


class AskedWrite:
    """What the writer was asked for."""

    def __init__(
        self, state: PartitionState, added: dict[BrokerId, BrokerEpoch], on_done: Callable[[IsrResult], None]
    ) -> None:
        self.state = state
        self.added = added
        self.isr = state.isr
        self.answer = on_done

    def succeed(self) -> None:
        self.answer(IsrWritten(self.state.version + 1))


class Leader:
    """Broker 1 with one partition, led with followers 2 and 3 unless `state` says otherwise."""

    def __init__(self, state: PartitionState | None = None, config: LogConfig | None = None) -> None:
        self.writes: list[AskedWrite] = []
        self.live: dict[BrokerId, BrokerEpoch] = {2: 20, 3: 30}
        self.hand = HandReplicas(ClusterPorts(self, self.live.get, LAG_MS))
        self.partition: Partition = self.hand.add(config, state=state_of() if state is None else state)
        self.replicas = self.hand.replicas
        self.hand.turn()

    def write(
        self,
        topic_partition: TopicPartition,
        state: PartitionState,
        added: dict[BrokerId, BrokerEpoch],
        on_done: Callable[[IsrResult], None],
    ) -> None:
        assert topic_partition == ORDERS
        self.writes.append(AskedWrite(state, added, on_done))

    @property
    def high_watermark(self) -> int:
        return self.partition.high_watermark

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        return self.partition.state.isr

    def fetches_of(self, broker_id: BrokerId) -> FollowerFetches:
        return self.replicas.followers[broker_id]

    def append(self, acks: int = ACKS_ALL) -> AcksWait | None:
        info, wait = self.partition.append(batch(b"v"), acks=acks, now_ms=NOW_MS)
        assert info.error_code == ErrorCode.NONE, info
        return wait

    def appended(self, count: int) -> None:
        for _ in range(count):
            self.append(acks=1)

    def fetch(
        self, broker_id: BrokerId, offset: int, *, durable: int = -1, broker_epoch: int | None = None, start: int = 0
    ) -> None:
        """The follower asks for `offset` in its session."""
        fetches = self.replicas.followers.get(broker_id)
        if fetches is not None:
            fetches.last_fetch_ms = self.hand.now_ms
        self.partition.on_follower_fetch(
            broker_id,
            broker_epoch=broker_id * 10 if broker_epoch is None else broker_epoch,
            fetch_offset=offset,
            durable_offset=durable,
            log_start_offset=start,
            now_ms=self.hand.now_ms,
            fetches=fetches,
        )

    def fetch_idly(self, broker_id: BrokerId) -> None:
        """A fetch of the session that does not name the partition."""
        self.fetches_of(broker_id).last_fetch_ms = self.hand.now_ms

    def shrink(self) -> None:
        self.replicas._next_shrink_ms = 0
        self.replicas.shrink_isrs()

    def await_acks(self, wait: AcksWait | None) -> list[ErrorCode]:
        assert wait is not None
        done: list[ErrorCode] = []
        self.replicas.await_acks([wait], timeout_ms=60_000, on_done=lambda: done.append(wait.error_code))
        return done
