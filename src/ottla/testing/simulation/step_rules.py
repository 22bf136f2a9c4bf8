"""What a correct cluster never does, judged while it runs: cheap looks at live brokers and at what the store is given.

Each class remembers what it was shown and raises `BrokenRule` at the first thing that does not go with it.
"""

from collections.abc import Iterable

from ottla.core.cluster import NO_LEADER, PartitionState
from ottla.core.types import BrokerId, ControllerEpoch, LeaderEpoch, Offset, TopicPartition
from ottla.replication.partition import Partition
from ottla.testing.simulation.broken_rule import BrokenRule


class Leaders:
    """One leader per partition and leader epoch, whoever says so: the store, or the broker that leads."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[TopicPartition, LeaderEpoch], tuple[BrokerId, str]] = {}

    def note(self, partition: TopicPartition, leader_epoch: LeaderEpoch, leader: BrokerId, *, source: str) -> None:
        if leader == NO_LEADER:
            return
        first, first_source = self._leaders.setdefault((partition, leader_epoch), (leader, source))
        if first != leader:
            raise BrokenRule(
                "one leader per partition and leader epoch",
                f"{partition} leader epoch {leader_epoch}: {first} ({first_source}), then {leader} ({source})",
            )

    def forget(self, topic: str) -> None:
        self._leaders = {key: leader for key, leader in self._leaders.items() if key[0].topic != topic}

    def note_stored(self, partition: TopicPartition, state: PartitionState) -> None:
        """A node of a partition's state was written."""
        self.note(partition, state.leader_epoch, state.leader, source="the store")


class HighWatermarks:
    """The high watermark of a leader never falls within its leader epoch, and never passes the log's end."""

    def __init__(self) -> None:
        self._highest: dict[tuple[TopicPartition, LeaderEpoch], Offset] = {}

    def note(
        self, partition: TopicPartition, leader_epoch: LeaderEpoch, high_watermark: Offset, *, log_end_offset: Offset
    ) -> None:
        key = (partition, leader_epoch)
        highest = self._highest.get(key, -1)
        if high_watermark < highest:
            raise BrokenRule(
                "the high watermark never falls within a leader epoch",
                f"{partition} leader epoch {leader_epoch}: {highest}, then {high_watermark}",
            )
        if high_watermark > log_end_offset:
            raise BrokenRule(
                "the high watermark is within the log",
                f"{partition} leader epoch {leader_epoch}: {high_watermark}, the log ends at {log_end_offset}",
            )
        self._highest[key] = high_watermark

    def forget(self, topic: str) -> None:
        self._highest = {key: highest for key, highest in self._highest.items() if key[0].topic != topic}


class Controllers:
    """One controller per controller epoch."""

    def __init__(self) -> None:
        self._controllers: dict[ControllerEpoch, BrokerId] = {}

    def note(self, controller_epoch: ControllerEpoch, controller: BrokerId) -> None:
        first = self._controllers.setdefault(controller_epoch, controller)
        if first != controller:
            raise BrokenRule(
                "one controller per controller epoch", f"epoch {controller_epoch}: {first}, then {controller}"
            )


class ControllersHeard:
    """A broker that has heard of a controller takes nothing of an older one, as long as it lives."""

    def __init__(self) -> None:
        self._newest: dict[int, ControllerEpoch] = {}  # by life of a process

    def note(self, broker_id: BrokerId, life: int, controller_epoch: ControllerEpoch) -> None:
        newest = self._newest.get(life, -1)
        if controller_epoch < newest:
            raise BrokenRule(
                "a broker takes nothing of an older controller",
                f"broker {broker_id}: of epoch {newest}, then of epoch {controller_epoch}",
            )
        self._newest[life] = controller_epoch


class StepRules:
    """All of them, for one run."""

    def __init__(self) -> None:
        self.leaders = Leaders()
        self.high_watermarks = HighWatermarks()
        self.controllers = Controllers()
        self.controllers_heard = ControllersHeard()
        self._topic_ids: dict[str, bytes] = {}

    def on_topic(self, topic: str, topic_id: bytes) -> bool:
        """The store has this topic now; whether it is another one than it had by that name, and has nothing to do with
        that."""
        is_another = self._topic_ids.get(topic, topic_id) != topic_id
        if is_another:
            self.leaders.forget(topic)
            self.high_watermarks.forget(topic)
        self._topic_ids[topic] = topic_id
        return is_another

    def look(self, broker_id: BrokerId, partitions: Iterable[Partition]) -> None:
        """At a live broker between two steps."""
        for partition in partitions:
            state = partition.state
            if state.leader != broker_id or partition.is_offline:
                continue
            topic_partition, leader_epoch = partition.topic_partition, state.leader_epoch
            if self._topic_ids.get(topic_partition.topic, partition.topic_id) != partition.topic_id:
                continue  # a topic that is deleted
            self.leaders.note(topic_partition, leader_epoch, broker_id, source="its broker")
            log_end_offset = partition.log.log_end_offset
            self.high_watermarks.note(
                topic_partition, leader_epoch, partition.high_watermark, log_end_offset=log_end_offset
            )
