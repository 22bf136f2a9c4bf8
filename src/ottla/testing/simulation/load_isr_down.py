"""Takes down all in-sync replicas of a partition whose topic allows unclean elections, and brings back the replica that
fell behind: it is elected, and what only the others had is lost."""

from collections.abc import Callable
from typing import Final

from ottla.core.types import BrokerId, TopicPartition
from ottla.testing.simulation.cluster import SimulatedCluster
from ottla.testing.simulation.stored_topics import stored_state

UNCLEAN_CONFIGS: Final = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
REPLICATION_FACTOR: Final = 2

_LOOK_EVERY_S: Final = 0.1
_PATIENCE_S: Final = 12.0
_ALONE_MAX_S: Final = 1.5  # how long the last in-sync replica goes on
_EXPIRE_CHANCE: Final = 0.8  # that the store notices at once


class IsrTakenDown:
    """Made by a run; `start` once, `stop` once. Who ends the faults starts the brokers that are down then."""

    def __init__(self, cluster: SimulatedCluster, topic_partition: TopicPartition) -> None:
        self._cluster = cluster
        self._topic_partition = topic_partition
        self._random = cluster.scheduler.random("isr-taken-down")
        self._is_stopped = False

    def start(self) -> None:
        self._after(self._random.random(), self._begin)

    def stop(self) -> None:
        self._is_stopped = True

    def _begin(self) -> None:
        state = stored_state(self._cluster, self._topic_partition)
        brokers = self._cluster.brokers
        if (
            state is None
            or len(state.isr) < REPLICATION_FACTOR
            or not all(brokers[each].is_serving for each in state.isr)
        ):
            self._after(_LOOK_EVERY_S, self._begin)
            return
        leader = state.leader
        (follower,) = (each for each in state.isr if each != leader)
        self._end(follower)

        def on_alone() -> None:
            self._after(self._random.uniform(0, _ALONE_MAX_S), lambda: self._take_leader_down(leader, follower))

        self._when(lambda: self._isr() == (leader,), on_alone)

    def _take_leader_down(self, leader: BrokerId, follower: BrokerId) -> None:
        self._end(leader)
        self._bring_up(follower)

        def on_elected() -> None:
            self._after(self._random.uniform(0, _ALONE_MAX_S), lambda: self._bring_up(leader))
            self._after(_PATIENCE_S / 2, self._begin)

        self._when(lambda: self._isr() == (follower,), on_elected)

    def _end(self, broker_id: BrokerId) -> None:
        broker = self._cluster.brokers[broker_id]
        store = broker.store
        broker.kill()
        if store is not None and self._random.random() < _EXPIRE_CHANCE:
            self._cluster.ensemble.expire(store.session_id)

    def _bring_up(self, broker_id: BrokerId) -> None:
        broker = self._cluster.brokers[broker_id]
        if not broker.is_up:
            broker.start()

    def _isr(self) -> tuple[BrokerId, ...]:
        state = stored_state(self._cluster, self._topic_partition)
        return state.isr if state is not None else ()

    def _when(self, condition: Callable[[], bool], callback: Callable[[], None]) -> None:
        """Once it holds; if that takes too long, all brokers come up and it begins anew."""
        deadline = self._cluster.now + _PATIENCE_S

        def look() -> None:
            if condition():
                callback()
            elif self._cluster.now < deadline:
                self._after(_LOOK_EVERY_S, look)
            else:
                for broker_id in self._cluster.brokers:
                    self._bring_up(broker_id)
                self._after(_LOOK_EVERY_S, self._begin)

        look()

    def _after(self, delay_s: float, callback: Callable[[], None]) -> None:
        def run() -> None:
            if not self._is_stopped:
                callback()

        self._cluster.scheduler.call_at(self._cluster.now + delay_s, run)
