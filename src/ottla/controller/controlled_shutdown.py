"""A broker that wants to stop: its leaderships go to others, it leaves the in-sync replicas, and then it may go."""

import logging
from collections.abc import Callable

from ottla.controller.broadcast import Broadcast
from ottla.controller.partition_elections import PartitionElections
from ottla.controller.state import ClusterState
from ottla.core.cluster import PartitionState
from ottla.core.control import ControlledShutdown, ControlledShutdownAnswer, StoppedReplica
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, TopicPartition

_LOG = logging.getLogger("ottla.controller")

OnAnswer = Callable[[ControlledShutdownAnswer], None]


class ControlledShutdowns:
    """Owned by one term of the controller."""

    def __init__(self, state: ClusterState, elections: PartitionElections, broadcast: Broadcast) -> None:
        self._state = state
        self._elections = elections
        self._broadcast = broadcast
        self._waiting: dict[BrokerId, list[OnAnswer]] = {}

    def handle(self, request: ControlledShutdown, on_answer: OnAnswer) -> None:
        """Answers with what the broker still leads though another could lead it; it may ask again."""
        broker_id = request.broker_id
        broker = self._state.brokers.get(broker_id)
        if broker is None:
            on_answer(ControlledShutdownAnswer(ErrorCode.BROKER_NOT_AVAILABLE))
            return
        if request.broker_epoch != broker.epoch:
            on_answer(ControlledShutdownAnswer(ErrorCode.STALE_BROKER_EPOCH))
            return
        _LOG.info("broker %d shuts down", broker_id)
        self._state.shutting_down.add(broker_id)
        concerned: list[TopicPartition] = []
        for topic_partition, state in self._state.partitions():
            if broker_id in state.replicas and len(state.replicas) > 1:
                concerned.append(topic_partition)
                if state.leader != broker_id:
                    # Before it leaves the in-sync replicas: its next fetch would bring it back.
                    self._broadcast.stop(broker_id, StoppedReplica(topic_partition, state.leader_epoch, deletes=False))
        self._elections.want(concerned)
        waiting = self._waiting.setdefault(broker_id, [])
        waiting.append(on_answer)
        if len(waiting) == 1:
            self._elections.when_idle(lambda: self._answer(broker_id))

    def close(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for answers in waiting.values():
            for on_answer in answers:
                on_answer(ControlledShutdownAnswer(ErrorCode.NOT_CONTROLLER))

    def _can_be_led_elsewhere(self, topic_partition: TopicPartition, state: PartitionState) -> bool:
        """Else the broker would wait in vain, as when all brokers stop."""
        return any(
            replica != state.leader and self._state.is_online(replica, topic_partition) for replica in state.replicas
        )

    def _answer(self, broker_id: BrokerId) -> None:
        remaining = tuple(
            [
                topic_partition
                for topic_partition, state in self._state.partitions()
                if state.leader == broker_id and self._can_be_led_elsewhere(topic_partition, state)
            ]
        )
        for on_answer in self._waiting.pop(broker_id, ()):
            on_answer(ControlledShutdownAnswer(ErrorCode.NONE, remaining))
