"""The coordinator's log belongs to the leader epoch in which it was opened."""

import pytest

from ottla.broker.offsets_log import OffsetsLog
from ottla.core.cluster import OFFSETS_TOPIC, PartitionState
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from tests.broker.rig import Rig
from tests.storage.log_making import batch

OFFSETS = TopicPartition(OFFSETS_TOPIC, 0)
DEPOSED = PartitionState(2, 1, (2,), (1, 2))
ELECTED_AGAIN = PartitionState(1, 2, (1,), (1, 2))


def opened(rig: Rig, **configs: str) -> OffsetsLog:
    rig.create_topic(OFFSETS_TOPIC, **configs)
    return reopened(rig)


def reopened(rig: Rig) -> OffsetsLog:
    return OffsetsLog(rig.partition(OFFSETS_TOPIC), rig.replicas, rig.log_manager, rig.flusher, rig.clock)


def append(log: OffsetsLog) -> ErrorCode:
    return log.append(bytearray(batch(b"v")))


def test_batch_is_committed_when_it_is_as_durable_as_its_topic_says(rig: Rig) -> None:
    log = opened(rig, flush_messages="1")
    done: list[ErrorCode] = []
    assert append(log) == ErrorCode.NONE
    log.await_commit(1, done.append)
    assert (done, log.committed_offset) == ([], 0)
    rig.flush()
    assert (done, log.committed_offset) == ([ErrorCode.NONE], 1)


@pytest.mark.parametrize("state", [DEPOSED, ELECTED_AGAIN])
def test_wait_for_a_commit_ends_with_the_epoch(rig: Rig, state: PartitionState) -> None:
    log = opened(rig, flush_messages="1")
    done: list[ErrorCode] = []
    append(log)
    log.await_commit(1, done.append)
    rig.replicas.update_state(OFFSETS, state)
    assert done == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    rig.flush()
    log.await_commit(1, done.append)  # also where it is committed by then, as part of a later epoch
    assert done == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2


@pytest.mark.parametrize("state", [DEPOSED, ELECTED_AGAIN])
def test_nothing_is_appended_or_deleted_in_a_later_epoch(rig: Rig, state: PartitionState) -> None:
    log = opened(rig)
    append(log)
    rig.replicas.update_state(OFFSETS, state)
    assert append(log) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    log.delete_before(1)
    assert (log.start_offset, log.end_offset) == (0, 1)


def test_log_that_is_opened_in_the_later_epoch_goes_on(rig: Rig) -> None:
    append(opened(rig))
    rig.replicas.update_state(OFFSETS, ELECTED_AGAIN)
    assert append(reopened(rig)) == ErrorCode.NONE
    assert rig.partition(OFFSETS_TOPIC).log.leader_epochs.epoch_of(1) == 2


def test_too_few_in_sync_replicas_refuse_the_append(rig: Rig) -> None:
    log = opened(rig, min_insync_replicas="2")
    assert append(log) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert log.end_offset == 0
