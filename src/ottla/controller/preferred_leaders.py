"""Brings leadership back to the first replica of each partition: on request, by a node of the tree, and by itself when
too much of what a broker should lead is led elsewhere."""

import logging
from collections.abc import Callable

from ottla.controller.fenced_store import FencedStore
from ottla.controller.partition_decisions import Strategy
from ottla.controller.partition_elections import PartitionElections
from ottla.controller.ports import ControllerPorts
from ottla.controller.settings import check_interval_ms, imbalance_percentage, is_balanced_automatically
from ottla.controller.state import ClusterState
from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import ANY_VERSION, Delete, Result, WatchEvent
from ottla.core.config.current import CurrentConfig
from ottla.core.types import BrokerId, TopicPartition

_LOG = logging.getLogger("ottla.controller")


def imbalanced(state: ClusterState, percentage: int) -> list[TopicPartition]:
    """Partitions to be given back, of brokers that lead less than their share; only where the broker can lead."""
    preferred: dict[BrokerId, int] = {}
    elsewhere: dict[BrokerId, list[TopicPartition]] = {}
    for topic_partition, partition in state.partitions():
        first = partition.replicas[0]
        preferred[first] = preferred.get(first, 0) + 1
        if partition.leader != first:
            elsewhere.setdefault(first, []).append(topic_partition)
    wanted: list[TopicPartition] = []
    for broker_id, partitions in sorted(elsewhere.items()):
        if 100 * len(partitions) <= percentage * preferred[broker_id]:
            continue
        for topic_partition in partitions:
            found = state.partition(topic_partition)
            if found is not None and broker_id in found.isr and state.is_online(broker_id, topic_partition):
                wanted.append(topic_partition)
    return wanted


class Balance:
    """Looks every `leader.imbalance.check.interval.seconds`; owned by one term of the controller."""

    def __init__(
        self, state: ClusterState, elections: PartitionElections, current: CurrentConfig, ports: ControllerPorts
    ) -> None:
        self._state = state
        self._elections = elections
        self._current = current
        self._ports = ports
        self._next = _NextCheck(self._check)

    def start(self) -> None:
        self._ports.call_later(check_interval_ms(self._current.value), self._next)

    def close(self) -> None:
        self._next.check = None

    def _check(self) -> None:
        config = self._current.value
        if is_balanced_automatically(config):
            wanted = imbalanced(self._state, imbalance_percentage(config))
            if wanted:
                _LOG.info("%d partitions go back to their preferred leaders", len(wanted))
                self._elections.want(wanted, Strategy.PREFERRED)
        self.start()


class _NextCheck:
    """All that a timer holds of a term that is over: the interval is long, and a term has the state of the cluster."""

    __slots__ = ("check",)

    def __init__(self, check: Callable[[], None]) -> None:
        self.check: Callable[[], None] | None = check

    def __call__(self) -> None:
        if self.check is not None:
            self.check()


class PreferredElectionNode:
    """/admin/preferred_replica_election: written by tools, removed when what it asks for is done."""

    def __init__(self, store: FencedStore, elections: PartitionElections) -> None:
        self._store = store
        self._elections = elections

    def start(self) -> None:
        self._store.exists(paths.PREFERRED_REPLICA_ELECTION, self._on_exists, watch=self._on_change)

    def _on_change(self, event: WatchEvent) -> None:
        self.start()

    def _on_exists(self, result: Result) -> None:
        if result.is_ok:
            self._store.get(result.path, self._on_read)

    def _on_read(self, result: Result) -> None:
        if not result.is_ok:
            return
        try:
            self._elections.want(paths.decode_partition_set(result.path, result.value), Strategy.PREFERRED)
        except MalformedNodeError as error:
            _LOG.error("%s", error)
        self._elections.when_idle(lambda: self._store.multi([Delete(result.path, ANY_VERSION)], lambda _: None))
