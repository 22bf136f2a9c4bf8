"""In-sync replicas written to the coordination store by the leaders of this broker (Kafka's AlterPartitionManager).

A write is fenced by the version of the partition's node, and by the epochs of the brokers that it adds. The controller
learns of it by a notification, many partitions in one.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION, Check, Code, Create, Result, SetValue, Store, Write
from ottla.core.cluster import PartitionState
from ottla.core.types import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition
from ottla.replication.ports import IsrRefused, IsrResult, IsrUnknown, IsrWritten

_LOG = logging.getLogger("ottla.isr")

OnDone = Callable[[IsrResult], None]

# How long changes are gathered for one notification. Nothing but what clients see of the in-sync replicas waits for it.
NOTIFY_AFTER_MS: Final = 1_000
# A node must not grow without bounds; the rest goes into the next one.
_PARTITIONS_PER_NOTE: Final = 3_000

# Nothing was written: the node has another version or is gone, or a broker that is added has registered anew.
_OVERTAKEN = (Code.BAD_VERSION, Code.NO_NODE)


class _IsrChange(NamedTuple):
    topic_partition: TopicPartition
    value: bytes
    eligible_value: bytes | None  # None: there is no node of eligible replicas, and there need not be
    checks: list[Check]
    on_done: OnDone
    creates_eligible: bool = False  # the node of eligible replicas is not there yet

    @property
    def path(self) -> str:
        return paths.partition_state_path(*self.topic_partition)

    @property
    def eligible_path(self) -> str:
        return paths.eligible_path(*self.topic_partition)


class IsrStore:
    """The `IsrWriter` of a broker; event loop only."""

    def __init__(
        self,
        store: Store,
        *,
        controller_epoch: Callable[[], ControllerEpoch],
        call_later: Callable[[int, Callable[[], None]], object],
    ) -> None:
        """`controller_epoch` is that of the controller whose states the leaders have; the node names it."""
        self._store = store
        self._controller_epoch = controller_epoch
        self._call_later = call_later
        # By partition: the node's version and the values of writes that had no clear end. One of them may come true.
        self._uncertain: dict[TopicPartition, tuple[int, list[bytes]]] = {}
        self._changed: dict[TopicPartition, None] = {}  # not in a notification yet
        self._is_notifying = False

    def write(
        self,
        topic_partition: TopicPartition,
        state: PartitionState,
        added: dict[BrokerId, BrokerEpoch],
        on_done: OnDone,
    ) -> None:
        """Replace the node of `state.version` by `state`; see `IsrWriter`."""
        node = paths.PartitionState(state.leader, state.leader_epoch, state.isr, self._controller_epoch())
        checks = [Check(paths.broker_epoch_path(broker_id), epoch) for broker_id, epoch in sorted(added.items())]
        eligible = None if state.eligible is None else paths.encode_eligible(paths.EligibleReplicas(state.eligible))
        value = paths.encode_partition_state(node)
        self._write(_IsrChange(topic_partition, value, eligible, checks, on_done), state.version)

    def _write(self, change: _IsrChange, version: int) -> None:
        writes: list[Write] = [*change.checks, SetValue(change.path, change.value, version)]
        if change.eligible_value is not None:  # last: its failure says that all the rest would have been done
            if change.creates_eligible:
                writes.append(Create(change.eligible_path, change.eligible_value))
            else:
                writes.append(SetValue(change.eligible_path, change.eligible_value, ANY_VERSION))
        self._store.multi(writes, partial(self._on_written, change, version))

    def _on_written(self, change: _IsrChange, version: int, result: Result) -> None:
        if result.is_ok:
            self._end(change, IsrWritten(version + 1))
            return
        if result.path == change.eligible_path and result.code == Code.NO_NODE and not change.creates_eligible:
            self._write(change._replace(creates_eligible=True), version)
            return
        if result.code not in _OVERTAKEN:
            known_version, values = self._uncertain.get(change.topic_partition, (version, []))
            if known_version != version:
                values = []
            self._uncertain[change.topic_partition] = (version, [*values, change.value])
        elif change.topic_partition not in self._uncertain:
            self._end(change, IsrRefused(_why(result)))
            return
        self._store.get(change.path, partial(self._on_read, change, version, result))

    def _on_read(self, change: _IsrChange, version: int, written: Result, found: Result) -> None:
        """The end of a write that was perhaps carried out, by what the node has now."""
        if found.code == Code.NO_NODE:
            self._end(change, IsrRefused(_why(found)))
        elif found.stat is None:
            change.on_done(IsrUnknown(_why(found)))
        elif found.stat.version == version:
            if written.code in _OVERTAKEN:  # the node is as it was: a broker that was to be added has another epoch
                self._end(change, IsrRefused(_why(written)))
            else:
                # Perhaps it is on its way still. With this version only one of all that are written can come true.
                change.on_done(IsrUnknown(_why(written)))
        elif found.stat.version == version + 1 and found.value == change.value:
            self._end(change, IsrWritten(version + 1))
        elif found.stat.version == version + 1 and self._is_own(change.topic_partition, version, found.value):
            # An earlier change came true, of which the leader does not know: this one is made on top of it.
            del self._uncertain[change.topic_partition]
            self._write(change, version + 1)
        else:
            self._end(change, IsrRefused(f"{found.path} has version {found.stat.version}, expected {version}"))

    def _is_own(self, topic_partition: TopicPartition, version: int, value: bytes) -> bool:
        known_version, values = self._uncertain.get(topic_partition, (version, []))
        return known_version == version and value in values

    def _end(self, change: _IsrChange, outcome: IsrResult) -> None:
        self._uncertain.pop(change.topic_partition, None)
        if isinstance(outcome, IsrWritten):
            self._notify_later(change.topic_partition)
        change.on_done(outcome)

    # Notifications

    def _notify_later(self, topic_partition: TopicPartition) -> None:
        self._changed[topic_partition] = None
        if not self._is_notifying:
            self._is_notifying = True
            self._call_later(NOTIFY_AFTER_MS, self._notify)

    def _notify(self) -> None:
        noted = list(self._changed)[:_PARTITIONS_PER_NOTE]
        for topic_partition in noted:
            del self._changed[topic_partition]
        value = paths.encode_partition_set(noted)
        self._store.create(paths.ISR_CHANGE_PREFIX, value, partial(self._on_notified, noted), sequential=True)

    def _on_notified(self, noted: list[TopicPartition], result: Result) -> None:
        self._is_notifying = False
        if not result.is_ok:
            _LOG.warning("notification of %d changed ISRs: %s; again later", len(noted), _why(result))
            self._changed = {**dict.fromkeys(noted), **self._changed}
        if self._changed:
            self._is_notifying = True
            self._call_later(NOTIFY_AFTER_MS, self._notify)


def _why(result: Result) -> str:
    return f"{result.path or 'multi'}: {result.code.name} {result.detail}".rstrip()
