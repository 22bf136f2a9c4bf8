"""Elects leaders of many partitions: decided on the state, written in a few multis, applied when the store has them.

A partition is in at most one write at a time. Whoever else writes its node (its leader, for the in-sync replicas) makes
the write fail by the node's version; then the nodes of that multi are read, and all of it is decided anew.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import NamedTuple

from ottla.controller.deltas import PartitionsAdded, PartitionsChanged, TopicDelta
from ottla.controller.eligible_nodes import eligible_of, eligible_writes
from ottla.controller.fenced_store import FencedStore
from ottla.controller.partition_decisions import Strategy, decide_partition
from ottla.controller.ports import ControllerPorts
from ottla.controller.settings import is_unclean_allowed, min_insync_replicas
from ottla.controller.state import ClusterState
from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import Code, Create, Result, SetValue, Write
from ottla.core.cluster import NO_LEADER, PartitionState, TopicImage
from ottla.core.config.current import CurrentConfig
from ottla.core.types import NO_LEADER_EPOCH, ControllerEpoch, TopicPartition

_LOG = logging.getLogger("ottla.controller")

# ZooKeeper takes a megabyte at most; half of it leaves room for what it adds.
MULTI_BYTES_MAX = 256 * 1024
_OVERHEAD_BYTES = 64  # of one write in a multi, besides path and value
_PER_TURN = 1_000  # partitions decided in one turn of the loop, some milliseconds
_TRIES_MAX = 100


class _Wanted(NamedTuple):
    strategy: Strategy
    tries: int = 0


class _Batch:
    """The partitions of one multi."""

    __slots__ = ("decided", "size", "wanted", "writes")

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.size = 0
        self.decided: dict[TopicPartition, PartitionState] = {}
        self.wanted: dict[TopicPartition, _Wanted] = {}

    def add(self, *writes: SetValue | Create) -> None:
        self.writes += writes
        for write in writes:
            self.size += len(write.path) + len(write.value) + _OVERHEAD_BYTES


class PartitionElections:
    """Owned by one term of the controller; event loop only."""

    def __init__(
        self,
        store: FencedStore,
        state: ClusterState,
        current: CurrentConfig,
        ports: ControllerPorts,
        *,
        controller_epoch: ControllerEpoch,
        apply: Callable[[TopicDelta], None],
    ) -> None:
        self._store = store
        self._state = state
        self._current = current
        self._ports = ports
        self._controller_epoch = controller_epoch
        self._apply = apply
        self._wanted: dict[TopicPartition, _Wanted] = {}
        self._busy: dict[TopicPartition, None] = {}  # being written or read
        self._stale: dict[TopicPartition, None] = {}  # to be read: their leaders have written them
        self._is_scheduled = False
        self._parents: set[str] = set()  # nodes above partition states that are there
        self._when_idle: list[tuple[Callable[[], None], Callable[[], None]]] = []

    def want(self, partitions: Iterable[TopicPartition], strategy: Strategy = Strategy.AUTOMATIC) -> None:
        """Look at these after this turn of the loop, and elect where something is to be done."""
        for topic_partition in partitions:
            self._want(topic_partition, _Wanted(strategy))
        self._schedule()

    def when_idle(self, callback: Callable[[], None], on_closed: Callable[[], None] = lambda: None) -> None:
        """Call back when all that was wanted so far is done, or can't be; `on_closed` if the term ends before."""
        self._when_idle.append((callback, on_closed))
        self._schedule()

    def close(self) -> None:
        waiting, self._when_idle = self._when_idle, []
        for _, on_closed in waiting:
            on_closed()

    def refresh(self, partitions: Iterable[TopicPartition]) -> None:
        """Others may have written these nodes: read them, apply what is new, and look whether it is in order."""
        self._stale.update(dict.fromkeys(partitions))
        self._schedule()

    def _want(self, topic_partition: TopicPartition, wanted: _Wanted) -> None:
        found = self._wanted.get(topic_partition)
        if found is None or found.strategy < wanted.strategy:
            self._wanted[topic_partition] = wanted

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._ports.call_soon(self._on_turn)

    def _on_turn(self) -> None:
        self._is_scheduled = False
        if self._store.is_closed:
            return
        busy = self._busy
        stale = [topic_partition for topic_partition in self._stale if topic_partition not in busy]
        for topic_partition in stale:
            del self._stale[topic_partition]
        self._read(dict.fromkeys(stale, _Wanted(Strategy.AUTOMATIC)), by_leaders=True)
        ready = list(islice((found for found in self._wanted if found not in busy), _PER_TURN))
        self._elect(ready)
        if len(ready) == _PER_TURN:
            self._schedule()
        elif not self._wanted and not busy:
            waiting, self._when_idle = self._when_idle, []
            for callback, _ in waiting:
                callback()

    def _elect(self, ready: list[TopicPartition]) -> None:
        batch = _Batch()
        for topic_partition in ready:
            wanted = self._wanted.pop(topic_partition)
            image = self._state.find(topic_partition.topic)
            state = None if image is None else image.partitions.get(topic_partition.partition)
            if image is None or state is None:
                continue
            decided = self._decide(topic_partition, image, state, wanted.strategy)
            if decided is None:
                continue
            self._add_writes(batch, topic_partition, state, decided)
            batch.decided[topic_partition] = decided
            batch.wanted[topic_partition] = wanted
            self._busy[topic_partition] = None
            if batch.size >= MULTI_BYTES_MAX:
                self._write(batch)
                batch = _Batch()
        if batch.decided:
            self._write(batch)

    def _decide(
        self, topic_partition: TopicPartition, image: TopicImage, state: PartitionState, strategy: Strategy
    ) -> PartitionState | None:
        allows_unclean = is_unclean_allowed(image.configs, self._current.value)
        min_isr = min_insync_replicas(image.configs, self._current.value)
        decided = decide_partition(
            topic_partition, state, self._state, strategy, is_unclean_allowed=allows_unclean, min_isr=min_isr
        )
        if decided is None or decided.leader == state.leader:
            return decided
        if decided.leader == NO_LEADER:
            _LOG.warning("%s: no leader: none of its in-sync replicas %s is online", topic_partition, state.isr)
        elif not state.isr and not state.eligible and state.lossy:
            _LOG.warning(
                "%s: all replicas that had everything are lossy: broker %d leads, with the most that is left of %s",
                topic_partition,
                decided.leader,
                state.lossy,
            )
        elif state.isr and decided.leader not in (*state.isr, *(state.eligible or ())):
            _LOG.warning(
                "%s: unclean election: broker %d leads, but the in-sync replicas were %s; what only they had is lost",
                topic_partition,
                decided.leader,
                state.isr,
            )
        return decided

    def _add_writes(
        self, batch: _Batch, topic_partition: TopicPartition, state: PartitionState, decided: PartitionState
    ) -> None:
        name, partition = topic_partition
        path = paths.partition_state_path(name, partition)
        node = paths.PartitionState(decided.leader, decided.leader_epoch, decided.isr, self._controller_epoch)
        value = paths.encode_partition_state(node)
        if state.leader_epoch != NO_LEADER_EPOCH:
            batch.add(SetValue(path, value, state.version), *eligible_writes(topic_partition, state, decided))
            return
        for parent in (paths.topic_partitions_path(name), paths.partition_path(name, partition)):
            if parent not in self._parents:
                self._parents.add(parent)
                batch.add(Create(parent, b""))
        batch.add(Create(path, value))

    def _write(self, batch: _Batch) -> None:
        self._store.multi(batch.writes, lambda result: self._on_written(batch, result))

    def _on_written(self, batch: _Batch, result: Result) -> None:
        if result.is_ok:
            self._apply_written(batch.decided)
            for topic_partition in batch.decided:
                del self._busy[topic_partition]
                # Brokers may have come or gone while it was being written.
                self._want(topic_partition, _Wanted(Strategy.AUTOMATIC))
            self._schedule()
        else:  # for a lost connection too: perhaps it was written
            self._note_parents(batch, result)
            self._read(batch.wanted)

    def _apply_written(self, decided: Mapping[TopicPartition, PartitionState]) -> None:
        changed: dict[TopicPartition, PartitionState] = {}
        added: dict[str, dict[int, PartitionState]] = {}
        for topic_partition, state in decided.items():
            known = self._state.partition(topic_partition)
            if known is None:
                continue  # its deletion has begun
            if known.leader_epoch == NO_LEADER_EPOCH:
                added.setdefault(topic_partition.topic, {})[topic_partition.partition] = state
            else:
                changed[topic_partition] = state._replace(version=known.version + 1)
        if changed:
            self._apply(PartitionsChanged(changed))
        for name, partitions in added.items():
            self._apply(PartitionsAdded(name, partitions))

    def _note_parents(self, batch: _Batch, result: Result) -> None:
        """What the refusal says of the nodes above: the one at fault is there already, or the batch's are not."""
        for write in batch.writes:
            if isinstance(write, Create) and not write.value:
                self._parents.discard(write.path)
        if result.code == Code.NODE_EXISTS:
            self._parents.add(result.path)
        elif result.code == Code.NO_NODE:
            for name, partition in batch.decided:
                self._parents.discard(paths.topic_partitions_path(name))
                self._parents.discard(paths.partition_path(name, partition))

    def _read(self, wanted: Mapping[TopicPartition, _Wanted], *, by_leaders: bool = False) -> None:
        """Read these nodes, then decide anew. `by_leaders`: what they have in the known epoch, their leaders wrote.

        After a write of this controller they may have what it wrote itself, and then brokers have to learn of it.
        """
        if not wanted or self._store.is_closed:
            return
        unread = len(wanted)
        news: dict[TopicPartition, PartitionState] = {}
        states: dict[TopicPartition, Result] = {}

        # The eligible replicas come after the state: if they are newer than it, the next write fails by its version.
        def on_read(topic_partition: TopicPartition, eligible: Result) -> None:
            nonlocal unread
            unread -= 1
            self._note_news(topic_partition, states[topic_partition], eligible, news)
            if unread == 0:
                self._on_all_read(wanted, news, by_leaders=by_leaders)

        for topic_partition in wanted:
            self._busy[topic_partition] = None
            path = paths.partition_state_path(*topic_partition)
            self._store.get(path, partial(states.__setitem__, topic_partition))
            self._store.get(paths.eligible_path(*topic_partition), partial(on_read, topic_partition))

    def _note_news(
        self,
        topic_partition: TopicPartition,
        result: Result,
        eligible_result: Result,
        news: dict[TopicPartition, PartitionState],
    ) -> None:
        known = self._state.partition(topic_partition)
        if result.stat is None or known is None or (result.stat.version == known.version and known.leader_epoch >= 0):
            return
        if eligible_result.code not in (Code.OK, Code.NO_NODE):
            return  # half of it is not known: the next write fails by the version, and both are read again
        try:
            node = paths.decode_partition_state(result.path, result.value)
            eligible, lossy = eligible_of(eligible_result)
        except MalformedNodeError as error:
            _LOG.error("%s", error)
        else:
            version = result.stat.version
            news[topic_partition] = PartitionState(
                node.leader, node.leader_epoch, node.isr, known.replicas, version, eligible, lossy
            )

    def _on_all_read(
        self,
        wanted: Mapping[TopicPartition, _Wanted],
        news: dict[TopicPartition, PartitionState],
        *,
        by_leaders: bool,
    ) -> None:
        elected: dict[TopicPartition, PartitionState] = {}
        by_leader: dict[TopicPartition, PartitionState] = {}
        for topic_partition, state in news.items():
            known = self._state.partition(topic_partition)
            if known is not None:
                is_leaders_own = by_leaders and known.leader_epoch == state.leader_epoch
                (by_leader if is_leaders_own else elected)[topic_partition] = state
        if elected:
            self._apply(PartitionsChanged(elected))
        if by_leader:
            self._apply(PartitionsChanged(by_leader, by_leaders=True))
        for topic_partition, found in wanted.items():
            del self._busy[topic_partition]
            if found.tries < _TRIES_MAX:
                self._want(topic_partition, found._replace(tries=found.tries + 1))
            else:
                _LOG.error("%s: no election: its nodes in the store do not allow it", topic_partition)
        self._schedule()
