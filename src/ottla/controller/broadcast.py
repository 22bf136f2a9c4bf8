"""Makes control requests of what changed, for those concerned: brokers with replicas learn who leads, all brokers learn
what clients see. It decides nothing."""

from collections.abc import Callable, Collection, Iterable, Mapping

from ottla.controller.broker_channels import BrokerChannel, BrokerChannels
from ottla.controller.deltas import (
    BrokersChanged,
    PartitionsAdded,
    PartitionsChanged,
    TopicConfigChanged,
    TopicCreated,
    TopicDeletionStarted,
    TopicDelta,
)
from ottla.controller.state import ClusterState
from ottla.core.cluster import PartitionState, TopicImage
from ottla.core.control import LeaderAndIsrPartition, StoppedReplica
from ottla.core.types import NO_LEADER_EPOCH, BrokerId

_Leaders = dict[str, tuple[TopicImage, dict[int, LeaderAndIsrPartition]]]


class Broadcast:
    """Owned by one term of the controller; the `ClusterState` has each delta already when it comes here."""

    def __init__(self, state: ClusterState, channels: BrokerChannels, *, broker_id: BrokerId) -> None:
        self._state = state
        self._channels = channels
        self._broker_id = broker_id

    def apply(self, delta: TopicDelta, on_applied: Callable[[], None]) -> None:
        """Calls `on_applied` when the leaders of new partitions lead them, and this broker shows them.

        Not when all followers have their logs: one that is slow or dying must not hold up the others' clients.
        """
        if isinstance(delta, TopicCreated):
            self._add(delta.image, delta.image.partitions, on_applied)
        elif isinstance(delta, PartitionsAdded):
            self._add(self._state.topics[delta.topic], delta.partitions, on_applied)
        else:
            if isinstance(delta, PartitionsChanged):
                self._change(delta)
            elif isinstance(delta, TopicConfigChanged):
                for channel in self._channels:
                    channel.use_configs(delta.topic, delta.configs)
            elif isinstance(delta, TopicDeletionStarted):
                for channel in self._channels:
                    channel.batch_for().hide(delta.topic)
            on_applied()

    def when_led(self, partitions: Iterable[PartitionState], on_applied: Callable[[], None]) -> None:
        """Call back when the leaders of these, and this broker, have all that they were sent so far, or are gone."""
        leaders = [state.leader for state in partitions]
        waited_for = [self._channels.get(broker_id) for broker_id in dict.fromkeys([self._broker_id, *leaders])]
        _when_all_applied([channel for channel in waited_for if channel is not None], on_applied)

    def brokers_changed(self, delta: BrokersChanged) -> None:
        """Those that stay learn of it; the channels of those that came were opened, to be filled by `send_picture`."""
        for broker_id in delta.went:
            self._channels.close(broker_id)
        for channel in self._channels:
            channel.batch_for().show_brokers()
        for broker in delta.came:
            self._channels.open(broker)

    def stop(self, broker_id: BrokerId, replica: StoppedReplica) -> None:
        channel = self._channels.get(broker_id)
        if channel is not None:
            channel.batch_for().stop(replica)

    def lead_all(self, broker_id: BrokerId) -> None:
        """Say again who leads what the broker holds, to hear which of it is in a log directory that failed."""
        channel = self._channels.get(broker_id)
        if channel is not None:
            for image, partitions in self._leaders_for((broker_id,))[broker_id].values():
                batch = channel.batch_for(image.name)
                for partition, state, _ in partitions.values():
                    batch.lead(image, partition, state, is_new=False)

    def send_picture(self, broker_ids: Collection[BrokerId]) -> None:
        """All that these brokers hold, and all that clients see: the first that they hear of this controller."""
        shown = [image for name, image in self._state.topics.items() if name not in self._state.being_deleted]
        for broker_id, leaders in self._leaders_for(broker_ids).items():
            channel = self._channels.get(broker_id)
            if channel is not None:
                channel.seal()
                channel.batch_for().fill(leaders.values(), shown)

    def close(self) -> None:
        self._channels.close_all()

    def _leaders_for(self, broker_ids: Collection[BrokerId]) -> dict[BrokerId, _Leaders]:
        """One walk for all of them, however many there are."""
        found: dict[BrokerId, _Leaders] = {broker_id: {} for broker_id in broker_ids}
        for name, image in self._state.topics.items():
            if name in self._state.being_deleted:
                continue
            for partition, state in image.partitions.items():
                if state.leader_epoch == NO_LEADER_EPOCH:
                    continue
                leader_and_isr = LeaderAndIsrPartition(partition, state, False)
                for replica in state.replicas:
                    leaders = found.get(replica)
                    if leaders is None:
                        continue
                    topic = leaders.get(name)
                    if topic is None:
                        topic = leaders[name] = (image, {})
                    topic[1][partition] = leader_and_isr
        return found

    def _add(self, image: TopicImage, partitions: Mapping[int, PartitionState], on_applied: Callable[[], None]) -> None:
        self._lead(image, partitions, is_new=True)
        self._show(image, partitions)
        self.when_led(partitions.values(), on_applied)

    def _change(self, delta: PartitionsChanged) -> None:
        by_topic: dict[str, dict[int, PartitionState]] = {}
        for (name, partition), state in delta.partitions.items():
            by_topic.setdefault(name, {})[partition] = state
        for name, partitions in by_topic.items():
            image = self._state.find(name)
            if image is not None:
                if not delta.by_leaders:
                    self._lead(image, partitions, is_new=False)
                self._show(image, partitions)

    def _lead(self, image: TopicImage, partitions: Mapping[int, PartitionState], *, is_new: bool) -> None:
        batches = {channel.broker.broker_id: channel.batch_for(image.name) for channel in self._channels}
        for partition, state in partitions.items():
            if state.leader_epoch != NO_LEADER_EPOCH:
                for replica in state.replicas:
                    batch = batches.get(replica)
                    if batch is not None:
                        batch.lead(image, partition, state, is_new=is_new)

    def _show(self, image: TopicImage, partitions: Mapping[int, PartitionState]) -> None:
        for channel in self._channels:
            channel.batch_for(image.name).show(image, partitions)


def _when_all_applied(channels: Iterable[BrokerChannel], on_applied: Callable[[], None]) -> None:
    unfinished = 1  # this call itself

    def on_one_applied() -> None:
        nonlocal unfinished
        unfinished -= 1
        if unfinished == 0:
            on_applied()

    for channel in channels:
        unfinished += 1
        channel.batch_for().when_applied.append(on_one_applied)
    on_one_applied()
