"""What becomes of a request to move replicas."""

import pytest

from ottla.controller.reassignments import decide_reassignment
from ottla.controller.topic_faults import TopicFault
from ottla.core.cluster import PartitionState, TopicImage
from ottla.core.errors import ErrorCode


def decide(
    target: list[int] | None,
    *,
    replicas: tuple[int, ...] = (1,),
    index: int = 0,
    live: tuple[int, ...] = (1,),
    may_change: bool = True,
) -> TopicFault | None:
    image = TopicImage("orders", bytes(16), {}, {0: PartitionState(replicas[0], 0, replicas, replicas)})
    return decide_reassignment(image, "orders", index, target, live=live, allow_replication_factor_change=may_change)


def code_of(fault: TopicFault | None) -> ErrorCode:
    assert fault is not None
    assert fault.message
    return fault.error_code


@pytest.mark.parametrize("may_change", [True, False])
def test_replicas_that_are_there_already_are_done_at_once(may_change: bool) -> None:
    assert decide([1], may_change=may_change) is None
    assert decide([2, 1], replicas=(2, 1), live=(1, 2), may_change=may_change) is None


@pytest.mark.parametrize("may_change", [True, False])
@pytest.mark.parametrize("target", [[], [1, 1], [9], [1, 9], [-1], [9, 9]])
def test_brokers_that_repeat_or_are_none_or_unknown_are_refused(target: list[int], may_change: bool) -> None:
    assert code_of(decide(target, may_change=may_change)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize("target", [[1], [1, 2, 3]])
def test_other_number_of_replicas_is_refused_where_it_may_not_change(target: list[int]) -> None:
    fault = decide(target, replicas=(1, 2), live=(1, 2, 3), may_change=False)
    assert code_of(fault) == ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize("target", [[1], [2, 1], [1, 3]])
def test_move_that_can_not_be_made_is_refused_and_says_so(target: list[int]) -> None:
    fault = decide(target, replicas=(1, 2), live=(1, 2, 3))
    assert code_of(fault) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert fault is not None
    assert "[1, 2]" in fault.message


def test_nothing_is_there_to_be_cancelled() -> None:
    assert code_of(decide(None)) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.parametrize("target", [None, [], [1], [9]])
def test_what_does_not_exist_is_unknown_whatever_is_asked(target: list[int] | None) -> None:
    assert code_of(decide(target, index=1)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    fault = decide_reassignment(None, "none", 0, target, live=[1], allow_replication_factor_change=True)
    assert code_of(fault) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
