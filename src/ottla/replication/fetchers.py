"""Which partition is fetched from which broker (Kafka's ReplicaFetcherManager): one fetcher for each leader.

Owned by the broker, which says what the controller said; event loop only. Fetchers are made when there is something to
fetch from a broker, and stay: one without partitions costs nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.core.cluster import BrokerInfo
from ottla.core.types import BrokerId, LeaderEpoch, TopicPartition
from ottla.replication.fetcher import FetchChannel, FetcherPorts, FetcherSettings, ReplicaFetcher
from ottla.replication.followed_partition import PartitionKey
from ottla.replication.partition import Partition


class FetcherFigures(NamedTuple):
    """For metrics."""

    max_lag: int  # messages that the slowest partition is behind its leader's high watermark
    stopped_partitions: int  # not fetched until the controller says more: their leader's log is damaged, or their own


class _Assignment(NamedTuple):
    source: BrokerId
    leader_epoch: LeaderEpoch
    key: PartitionKey


class ReplicaFetchers:
    """`on_following` and its neighbours come from the controller's requests, `on_flushed` from group commit."""

    def __init__(
        self,
        partitions: Mapping[tuple[str, int], Partition],
        *,
        open_channel: Callable[[BrokerInfo], FetchChannel],
        settings: FetcherSettings,
        ports: FetcherPorts,
    ) -> None:
        """`open_channel` connects nothing yet. `partitions` are those of the broker's `Replicas`."""
        self._partitions = partitions
        self._open_channel = open_channel
        self._settings = settings
        self._ports = ports
        self._brokers: dict[BrokerId, BrokerInfo] = {}
        self._fetchers: dict[BrokerId, ReplicaFetcher] = {}
        self._assignments: dict[TopicPartition, _Assignment] = {}
        self._waiting: dict[TopicPartition, None] = {}  # for news of the broker that leads them
        self._is_stopped = False

    def on_following(
        self, topic_partition: TopicPartition, leader_epoch: LeaderEpoch, leader: BrokerInfo | None = None
    ) -> None:
        """This broker follows `leader` in that epoch; without one it waits for `update_brokers` to name it.

        Saying it twice changes nothing: also not for a partition that was stopped in this epoch.
        """
        partition = self._partitions.get(topic_partition)
        if partition is None or self._is_stopped:
            return
        source = partition.state.leader if leader is None else leader.broker_id
        assignment = _Assignment(source, leader_epoch, (partition.topic_id, topic_partition.partition))
        if self._assignments.get(topic_partition) != assignment:
            self.remove(topic_partition)
            if source < 0 or source == self._ports.broker_id:
                return
            self._assignments[topic_partition] = assignment
            self._waiting[topic_partition] = None
        if leader is not None:
            self._learn(leader)
        self._maybe_fetch(topic_partition)

    def on_leading(self, topic_partition: TopicPartition, leader_epoch: LeaderEpoch) -> None:
        """This broker leads it now: nothing is fetched any more."""
        self.remove(topic_partition)

    def remove(self, topic_partition: TopicPartition) -> None:
        """Its replica here stops, moves to another leader, or leads."""
        self._waiting.pop(topic_partition, None)
        assignment = self._assignments.pop(topic_partition, None)
        if assignment is not None:
            fetcher = self._fetchers.get(assignment.source)
            if fetcher is not None:
                fetcher.remove(assignment.key)

    def update_brokers(self, brokers: Iterable[BrokerInfo]) -> None:
        """All live brokers. One that has moved is reached in another way; one that is gone is tried as before: the
        controller takes its partitions away from it."""
        for broker in brokers:
            self._learn(broker)
        for topic_partition in list(self._waiting):
            self._maybe_fetch(topic_partition)

    def on_flushed(self, topic_partition: TopicPartition) -> None:
        """An fsync of the partition is done."""
        assignment = self._assignments.get(topic_partition)
        if assignment is not None:
            fetcher = self._fetchers.get(assignment.source)
            if fetcher is not None:
                fetcher.on_flushed(assignment.key)

    def stop(self) -> None:
        """Close all connections; nothing is appended afterwards."""
        self._is_stopped = True
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._assignments.clear()
        self._waiting.clear()

    def figures(self) -> FetcherFigures:
        followed = [one for fetcher in self._fetchers.values() for one in fetcher.followed.values()]
        return FetcherFigures(
            max_lag=max((one.lag for one in followed), default=0),
            stopped_partitions=sum(one.is_stopped for one in followed),
        )

    def _learn(self, broker: BrokerInfo) -> None:
        if self._brokers.get(broker.broker_id) == broker:
            return
        self._brokers[broker.broker_id] = broker
        fetcher = self._fetchers.get(broker.broker_id)
        if fetcher is not None:
            # Also with a new epoch alone: its old connections are dead, whether or not anybody said so.
            fetcher.use_channel(self._open_channel(broker))

    def _maybe_fetch(self, topic_partition: TopicPartition) -> None:
        if topic_partition not in self._waiting:
            return
        assignment = self._assignments[topic_partition]
        broker = self._brokers.get(assignment.source)
        if broker is None:
            return
        del self._waiting[topic_partition]
        fetcher = self._fetchers.get(broker.broker_id)
        if fetcher is None:
            fetcher = self._fetchers[broker.broker_id] = ReplicaFetcher(
                broker.broker_id, self._open_channel(broker), settings=self._settings, ports=self._ports
            )
        fetcher.add(self._partitions[topic_partition], leader_epoch=assignment.leader_epoch)
