"""OffsetForLeaderEpoch."""

import pytest

from ottla.core.cluster import PartitionState
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.rig import Rig
from tests.storage.log_making import batch


def look_up(
    rig: Rig, epoch: int, *, current: int = -1, topic: str = "orders", index: int = 0, version: int = 4
) -> tuple[int, int, int]:
    """(error code, leader epoch, end offset)"""
    wanted = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])])
    response = rig.ask(request, OffsetForLeaderEpochResponse, version)
    (found,) = response.topics[0].partitions
    assert (response.topics[0].topic, found.partition) == (topic, index)
    return found.error_code, found.leader_epoch, found.end_offset


def with_epochs(rig: Rig) -> None:
    """Epoch 0 up to 2, epoch 3 up to 3, and led in epoch 5 without a record of it."""
    rig.create_topic()
    rig.produce(batch(b"a", b"b"))
    for epoch in (3, 5):
        rig.replicas.apply_state(rig.partition().topic_partition, PartitionState(1, epoch, (1,), (1,), epoch))
        if epoch == 3:
            rig.produce(batch(b"c"))


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("epoch", "end"), [(0, (0, 2)), (1, (0, 2)), (3, (3, 3)), (4, (3, 3)), (5, (5, 3)), (6, (-1, -1)), (-1, (-1, -1))]
)
def test_end_of_each_epoch(rig: Rig, version: int, epoch: int, end: tuple[int, int]) -> None:
    with_epochs(rig)
    assert look_up(rig, epoch, version=version) == (0, *end)


def test_leader_epoch_of_the_asker_is_checked(rig: Rig) -> None:
    with_epochs(rig)
    assert look_up(rig, 3, current=4) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    assert look_up(rig, 3, current=6) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert look_up(rig, 3, current=5) == (0, 3, 3)


def test_only_the_leader_answers(rig: Rig) -> None:
    with_epochs(rig)
    rig.replicas.apply_state(rig.partition().topic_partition, PartitionState(2, 6, (2,), (1, 2), 6))
    assert look_up(rig, 3)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert look_up(rig, 3, index=4)[0] == look_up(rig, 3, topic="x")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
