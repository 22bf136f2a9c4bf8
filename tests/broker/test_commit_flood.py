"""Commits that come in a flood: the first of a millisecond is appended at once, the others of a turn in one batch."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.core.cluster import OFFSETS_TOPIC
from ottla.core.errors import ErrorCode
from ottla.core.exchange import Deferred
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from tests.broker.rig import Rig, bytes_of

GROUP = "readers"


def started(directory: Path, **properties: str) -> Rig:
    rig = Rig(directory, {"offsets.topic.num.partitions": "1", **properties})
    rig.create_topic("orders", partitions=100)
    rig.ask(FindCoordinatorRequest(key=GROUP), FindCoordinatorResponse, 3)
    while rig.ask(ListGroupsRequest(), ListGroupsResponse, 0).error_code:
        rig.flush()
    return rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = started(tmp_path)
    yield rig
    rig.close()


class Commit:
    """One that was sent, by a consumer that assigns itself its partitions."""

    def __init__(self, rig: Rig, *partitions: int, offset: int = 5, metadata: str | None = None) -> None:
        wanted = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
            for index in partitions
        ]
        request = OffsetCommitRequest(
            group_id=GROUP, topics=[OffsetCommitRequestTopic(name="orders", partitions=wanted)]
        )
        self.answer = rig.send(encode_request(request, 8, 77, "test"))

    @property
    def is_waiting(self) -> bool:
        return isinstance(self.answer, Deferred) and not self.answer.is_complete

    @property
    def error_codes(self) -> list[int]:
        correlation_id, response = decode_response(OffsetCommitResponse, 8, bytes_of(self.answer)[4:])
        assert correlation_id == 77
        return [each.error_code for topic in response.topics for each in topic.partitions]


def learn(rig: Rig, *partitions: int) -> None:
    """Have the broker remember the commits of these partitions; then time goes on."""
    for index in partitions:
        Commit(rig, index, offset=1)
    rig.turn()
    rig.advance(1)


def log_end(rig: Rig) -> int:
    return rig.partition(OFFSETS_TOPIC).log.log_end_offset


def committed(rig: Rig) -> dict[int, int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
    response = rig.ask(request, OffsetFetchResponse, 8)
    topics = response.groups[0].topics
    return {each.partition_index: each.committed_offset for topic in topics for each in topic.partitions}


def test_first_of_a_millisecond_is_answered_at_once_and_the_others_of_a_turn_together(rig: Rig) -> None:
    learn(rig, *range(5))
    end_offset = log_end(rig)
    commits = [Commit(rig, index, offset=7) for index in range(5)]
    assert [commit.is_waiting for commit in commits] == [False, True, True, True, True]
    assert log_end(rig) == end_offset + 1
    rig.turn()
    assert [commit.error_codes for commit in commits] == [[0]] * 5
    assert log_end(rig) == end_offset + 5
    assert committed(rig) == dict.fromkeys(range(5), 7)


def test_no_more_than_a_bound_are_gathered(rig: Rig) -> None:
    learn(rig, *range(100))
    commits = [Commit(rig, index, offset=7) for index in range(100)]
    assert sum(commit.is_waiting for commit in commits) == 35  # all but the first, and but 64 that were full
    rig.turn()
    assert not any(commit.is_waiting for commit in commits)
    assert committed(rig) == dict.fromkeys(range(100), 7)


def test_commits_of_one_partition_stay_in_their_order(rig: Rig) -> None:
    learn(rig, 0)
    commits = [Commit(rig, 0, offset=offset) for offset in range(10)]
    rig.turn()
    assert all(commit.error_codes == [0] for commit in commits)
    assert committed(rig) == {0: 9}


def test_what_comes_after_gathered_commits_does_not_overtake_them(rig: Rig) -> None:
    learn(rig, 0, 1)
    commits = [Commit(rig, index, offset=7) for index in (0, 1)]
    assert commits[1].is_waiting
    deleted = rig.ask(DeleteGroupsRequest(groups_names=[GROUP]), DeleteGroupsResponse, 2)
    assert deleted.results[0].error_code == 0
    assert not commits[1].is_waiting  # in the log before the tombstones, or it would have come back
    rig.turn()
    assert committed(rig) == {}


def test_commits_that_only_together_are_too_large_are_appended_one_by_one(tmp_path: Path) -> None:
    rig = started(tmp_path, **{"offsets.topic.segment.bytes": "1000"})
    learn(rig, *range(20))
    commits = [Commit(rig, index, offset=7) for index in range(20)]
    rig.turn()
    assert [commit.error_codes for commit in commits] == [[0]] * 20
    assert committed(rig) == dict.fromkeys(range(20), 7)
    rig.close()


def test_gathered_commits_are_answered_when_the_coordinator_goes(rig: Rig) -> None:
    learn(rig, 0, 1)
    commits = [Commit(rig, index, offset=7) for index in (0, 1)]
    rig.coordinator.stop()
    assert commits[1].error_codes == [ErrorCode.NOT_COORDINATOR]
    rig.turn()


def test_gathered_commit_whose_connection_is_gone_is_stored_all_the_same(rig: Rig) -> None:
    learn(rig, 0, 1)
    commits = [Commit(rig, index, offset=7) for index in (0, 1)]
    gone = commits[1].answer
    assert isinstance(gone, Deferred)
    gone.abandon()
    rig.turn()
    assert gone.answer is None
    assert committed(rig) == {0: 7, 1: 7}


def test_a_commit_with_nothing_to_append_in_a_flood_is_answered_at_once(rig: Rig) -> None:
    learn(rig, 0)
    Commit(rig, 0, offset=7)
    refused = Commit(rig, 100, offset=7)
    assert refused.error_codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("metadata", [None, "", "note"])
def test_remembered_commits_of_one_partition_take_each_offset_of_their_own(rig: Rig, metadata: str | None) -> None:
    for offset in (1, 2**40, 0):
        assert Commit(rig, 3, offset=offset, metadata=metadata).error_codes == [0]
        assert committed(rig) == {3: offset}
        rig.advance(1)


def test_remembered_commits_end_with_their_topic(rig: Rig) -> None:
    learn(rig, 0)
    rig.pump.call(rig.topics.delete, "orders")
    assert Commit(rig, 0, offset=7).error_codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
