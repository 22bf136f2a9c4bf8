"""What is acknowledged is committed, and what is committed is on every replica that the store has as in sync: judged
while a run goes on.

Such a replica may be elected at any time, so the rule need not wait for the election that would lose something. It
holds for topics that are fsynced before they are acknowledged: without that a loss of power may cost what was.
"""

from collections.abc import Iterable

from ottla.coordination import paths
from ottla.core.types import BrokerId, LeaderEpoch, Offset, TopicPartition
from ottla.replication.partition import Partition
from ottla.testing.simulation.broken_rule import BrokenRule
from ottla.testing.simulation.process import ProcessState, SimulatedBroker


class CommittedRecords:
    """Made by a run, which shows it every state of a partition that is stored, and every broker after its steps."""

    def __init__(self, brokers: dict[BrokerId, SimulatedBroker]) -> None:
        self._brokers = brokers
        self._states: dict[tuple[str, int], paths.PartitionState] = {}
        self._ends: dict[tuple[str, int], tuple[LeaderEpoch, Offset]] = {}  # the last high watermark of a leader
        self._highest: dict[tuple[str, int], Offset] = {}  # of any leader, also one that was deposed unknown to it

    def on_acked(self, topic_partition: TopicPartition, offset: Offset) -> None:
        """A producer with acks=all was told that its record is at this offset."""
        highest = self._highest.get(topic_partition, 0)
        if offset >= highest:
            raise BrokenRule(
                "what is acknowledged is committed",
                f"{topic_partition}: offset {offset} is acknowledged, the highest high watermark was {highest}",
            )

    def on_stored(self, topic_partition: TopicPartition, state: paths.PartitionState) -> None:
        """A replica that joins has all that is committed by now."""
        self._states[topic_partition] = state
        leader_epoch, end_offset = self._ends.get(topic_partition, (-1, 0))
        if leader_epoch == state.leader_epoch:
            self._judge(topic_partition, state, end_offset)

    def forget(self, topic: str) -> None:
        """Another topic has its name from now on."""
        for known in (self._states, self._ends, self._highest):
            for key in [key for key in known if key[0] == topic]:
                del known[key]

    def look(self, broker_id: BrokerId, changed: Iterable[Partition]) -> None:
        """At what has changed of a broker after a step of it: one that stops acknowledges until its leaders are
        elsewhere."""
        for partition in changed:
            topic_partition = partition.topic_partition
            if partition.state.leader != broker_id:
                if partition.high_watermark > self._highest.get(topic_partition, 0):
                    self._judge_follower(broker_id, partition)
                continue
            key = (partition.state.leader_epoch, partition.high_watermark)
            if self._ends.get(topic_partition) == key:
                continue
            if partition.high_watermark > self._highest.get(topic_partition, 0):
                self._highest[topic_partition] = partition.high_watermark
            state = self._states.get(topic_partition)
            if state is None or state.leader_epoch != partition.state.leader_epoch or partition.is_offline:
                continue  # it does not know yet that another one leads
            if partition.log.config.flush_messages == 1:
                self._ends[topic_partition] = key
                self._judge(partition.topic_partition, state, partition.high_watermark)

    def _judge_follower(self, broker_id: BrokerId, partition: Partition) -> None:
        highest = self._highest.get(partition.topic_partition, 0)
        raise BrokenRule(
            "only what a leader has committed is committed",
            f"{partition.topic_partition}: the high watermark of broker {broker_id}, which does not lead, is "
            f"{partition.high_watermark}, the highest of any leader was {highest}",
        )

    def _judge(self, topic_partition: TopicPartition, state: paths.PartitionState, end_offset: Offset) -> None:
        for broker_id in state.isr:
            replica = self._replica(broker_id, topic_partition)
            if replica is not None and replica.log.log_end_offset < end_offset:
                raise BrokenRule(
                    "what is committed is on every in-sync replica",
                    f"{topic_partition}: the high watermark of leader {state.leader} in epoch {state.leader_epoch} is "
                    f"{end_offset}, broker {broker_id} ends at {replica.log.log_end_offset}",
                )

    def _replica(self, broker_id: BrokerId, topic_partition: TopicPartition) -> Partition | None:
        broker = self._brokers.get(broker_id)
        if broker is None or broker.core is None or broker.state is not ProcessState.RUNNING:
            return None
        found = broker.core.replicas.partitions.get(topic_partition)
        return None if found is None or found.is_offline else found
