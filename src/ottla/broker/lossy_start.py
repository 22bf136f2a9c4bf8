"""A start that may have lost what other brokers count on: its replicas leave the in-sync and the eligible replicas
before the broker registers, so that none of them leads as if it had everything (KIP-966).

A replica is lossy when its log is missing, or when the machine went down without a clean stop. What is left of it is
noted in the store: if nobody else has more, the one with the most leads.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ottla.broker.cluster_join import StoreFailed, store_failed
from ottla.broker.steps import Answer, ask
from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION, Code, Create, Result, SetValue, Store
from ottla.core.cluster import NO_LEADER, LossyReplica, TopicImage
from ottla.core.types import NO_LEADER_EPOCH, BrokerId, TopicPartition
from ottla.storage.log_manager import LogManager
from ottla.storage.logs_by_dir import directory_of

_LOG = logging.getLogger("ottla.broker")

_MULTI_BYTES_MAX: Final = 256 * 1024
_OVERHEAD_BYTES: Final = 64  # of one write in a multi, besides path and value
_RETRY_MS: Final = 200
_TRIES_MAX: Final = 100
# The node was written meanwhile, or perhaps by this very write: read, then decide.
_AGAIN: Final = (Code.BAD_VERSION, Code.NO_NODE, Code.NODE_EXISTS, Code.CONNECTION_LOST, Code.SESSION_EXPIRED)
_NO_ANSWER: Final = (Code.CONNECTION_LOST, Code.SESSION_EXPIRED)


class Loss(NamedTuple):
    """A lossy replica of this broker, with what is left of it."""

    topic_partition: TopicPartition
    replica: LossyReplica
    is_sole: bool  # nobody has another copy


def find_losses(manager: LogManager, images: Iterable[TopicImage], broker_id: BrokerId) -> list[Loss]:
    """After the logs are loaded. While a log directory is offline, a missing log may be in there."""
    lossy_dirs = manager.lossy_directories
    losses = []
    for image in images:
        for partition, state in image.partitions.items():
            if broker_id not in state.replicas or state.leader_epoch == NO_LEADER_EPOCH:
                continue
            topic_partition = TopicPartition(image.name, partition)
            log = None if manager.is_offline(topic_partition) else manager.get(topic_partition)
            if log is not None and manager.topic_id_of(topic_partition) in (None, image.topic_id):
                if directory_of(log) not in lossy_dirs:
                    continue
                left = LossyReplica(broker_id, log.leader_epochs.latest_epoch, log.log_end_offset)
            elif manager.offline_directories:
                continue
            else:
                left = LossyReplica(broker_id, NO_LEADER_EPOCH, 0)
            losses.append(Loss(topic_partition, left, len(state.replicas) == 1))
    return losses


def log_losses(losses: Iterable[Loss]) -> None:
    """For the operator."""
    for topic_partition, left, is_sole in losses:
        what = (
            "its log is missing"
            if left.last_epoch == NO_LEADER_EPOCH and not left.log_end_offset
            else f"its log ends at {left.log_end_offset}, and the machine went down without a clean stop"
        )
        then = (
            "it is the only replica and leads on; what was not fsynced is lost"
            if is_sole
            else "it leaves the in-sync replicas until it has copied what is missing"
        )
        _LOG.warning("%s: lossy start: %s; %s", topic_partition, what, then)


class LossyStart:
    """One start's; to be run when no session has the broker's id any more, and before it registers."""

    def __init__(
        self, store: Store, broker_id: BrokerId, call_later: Callable[[int, Callable[[], None]], object]
    ) -> None:
        self._store = store
        self._broker_id = broker_id
        self._call_later = call_later

    async def leave(self, losses: Iterable[Loss]) -> None:
        """Leave the in-sync and eligible replicas of these partitions. StoreFailed: not all of them were left."""
        unwritten = [loss for loss in losses if not loss.is_sole]
        if not unwritten:
            return
        await self._raise_epoch()
        for _ in range(_TRIES_MAX):
            unwritten = await self._leave_once(unwritten)
            if not unwritten:
                return
            pause: Answer[None] = Answer()
            self._call_later(_RETRY_MS, lambda pause=pause: pause.give(None))  # type: ignore[misc]
            await pause
        raise StoreFailed(f"lossy start: the in-sync replicas of {len(unwritten)} partitions could not be left")

    async def _raise_epoch(self) -> None:
        """A leader that heard of the last life's progress can't let it join any more (KIP-903)."""
        for _ in range(_TRIES_MAX):
            result: Result = await ask(
                self._store.set, paths.broker_epoch_path(self._broker_id), b"", version=ANY_VERSION
            )
            if result.code in (Code.OK, Code.NO_NODE):  # without the node it was never registered
                return
            if result.code not in _NO_ANSWER:
                raise store_failed("raising the epoch at", result)
            pause: Answer[None] = Answer()
            self._call_later(_RETRY_MS, lambda pause=pause: pause.give(None))  # type: ignore[misc]
            await pause
        raise store_failed("raising the epoch at", result)

    async def _leave_once(self, losses: list[Loss]) -> list[Loss]:
        """Those that have to be tried again."""
        # All reads go out at once. The eligible replicas come after the state: if they are newer than it, the write
        # fails by its version.
        reads = [
            (
                loss,
                ask(self._store.get, paths.partition_state_path(*loss.topic_partition)),
                ask(self._store.get, paths.eligible_path(*loss.topic_partition)),
            )
            for loss in losses
        ]
        again: list[Loss] = []
        batch: list[SetValue | Create] = []
        batched: list[Loss] = []
        size = 0
        for loss, state_answer, eligible_answer in reads:
            state: Result = await state_answer
            eligible: Result = await eligible_answer
            if state.code in _NO_ANSWER or eligible.code in _NO_ANSWER:
                again.append(loss)
                continue
            writes = _writes_of(loss, state, eligible)
            if not writes:
                continue
            batch += writes
            batched.append(loss)
            size += sum(len(write.path) + len(write.value) + _OVERHEAD_BYTES for write in writes)
            if size >= _MULTI_BYTES_MAX:
                again += await self._write(batch, batched)
                batch, batched, size = [], [], 0
        if batch:
            again += await self._write(batch, batched)
        return again

    async def _write(self, batch: list[SetValue | Create], losses: list[Loss]) -> list[Loss]:
        # The controller has to hear of it: a leader that has the old version can't change its in-sync replicas.
        note = paths.encode_partition_set([loss.topic_partition for loss in losses])
        writes = [*batch, Create(paths.ISR_CHANGE_PREFIX, note, sequential=True)]
        result: Result = await ask(self._store.multi, writes)
        if result.is_ok:
            return []
        if result.code not in _AGAIN:
            raise store_failed("leaving the in-sync replicas at", result)
        return losses


def _writes_of(loss: Loss, state_result: Result, eligible_result: Result) -> list[SetValue | Create]:
    """The state without this replica, with another leader epoch: so its leader and the controller take the new
    version, whoever of them hears of it. Nothing if it counts for nobody already."""
    if state_result.stat is None:
        return []  # the topic was deleted meanwhile
    broker_id = loss.replica.broker_id
    state = paths.decode_partition_state(state_result.path, state_result.value)
    node = paths.EligibleReplicas(())
    if eligible_result.is_ok:
        node = paths.decode_eligible(eligible_result.path, eligible_result.value)
    noted = {one.broker_id: one for one in node.lossy}
    if (
        broker_id not in (state.leader, *state.isr, *node.eligible)
        and noted.get(broker_id, loss.replica) == loss.replica
    ):
        return []
    noted[broker_id] = loss.replica
    left = state._replace(
        leader=NO_LEADER if state.leader == broker_id else state.leader,
        leader_epoch=state.leader_epoch + 1,
        isr=tuple([replica for replica in state.isr if replica != broker_id]),
    )
    left_node = paths.EligibleReplicas(
        tuple([replica for replica in node.eligible if replica != broker_id]), tuple(noted.values())
    )
    path, value = paths.eligible_path(*loss.topic_partition), paths.encode_eligible(left_node)
    return [
        SetValue(state_result.path, paths.encode_partition_state(left), state_result.stat.version),
        SetValue(path, value, ANY_VERSION) if eligible_result.is_ok else Create(path, value),
    ]
