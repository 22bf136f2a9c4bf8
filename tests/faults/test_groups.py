"""What a member can do wrong, on the wire: each fault has its code, and the other members go on."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest

from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.group_wire import (
    COMMIT_VERSION,
    LEAVE_VERSION,
    RawMember,
    commit,
    committed,
    find_coordinator,
    gather,
    settle,
)
from tests.group_wire import rebalance as rebalance_all
from tests.processes import BrokerProcess, eventually
from tests.raw_wire import RawClient

pytestmark = pytest.mark.process

UNKNOWN_TOPIC = 3
METADATA_TOO_LARGE = 12
ILLEGAL_GENERATION = 22
INCONSISTENT_PROTOCOL = 23
INVALID_GROUP_ID = 24
UNKNOWN_MEMBER = 25
INVALID_SESSION_TIMEOUT = 26
REBALANCE_IN_PROGRESS = 27
GROUP_NOT_FOUND = 69
MEMBER_ID_REQUIRED = 79
GROUP_FULL = 81
FENCED = 82

GROUP_MAX_SIZE = 4
SHORT_MS = 300  # of sessions and rebalances that a test lets run out
_NUMBERS = count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(
        tmp_path_factory.mktemp("broker") / "data",
        "group.initial.rebalance.delay.ms=0",
        "group.min.session.timeout.ms=100",
        f"group.max.size={GROUP_MAX_SIZE}",
        "offset.metadata.max.bytes=50",
        "offsets.topic.num.partitions=5",
    ).start()
    with RawClient(broker.port) as client:
        assert client.create_topic("orders", partitions=3) == 0
    yield broker
    assert "Traceback" not in broker.log
    broker.close()


class Group:
    """A group of the test's own; every member that it makes is closed at the end."""

    def __init__(self, port: int, stack: ExitStack) -> None:
        self.port = port
        self.group_id = f"group-{next(_NUMBERS)}"
        self._stack = stack

    def member(self, **options: Any) -> RawMember:
        return self._stack.enter_context(RawMember(self.port, self.group_id, **options))


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client


@pytest.fixture
def group(broker: BrokerProcess, client: RawClient) -> Iterator[Group]:
    with ExitStack() as stack:
        group = Group(broker.port, stack)
        find_coordinator(client, group.group_id)
        yield group


# Joining


@pytest.mark.parametrize("version", range(10))
def test_id_is_asked_for_since_version_4(group: Group, version: int) -> None:
    member = group.member()
    joined = member.ask_join(version)
    assert joined.member_id.startswith("raw-")
    if version < 4:
        assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, joined.member_id)
        return
    assert (joined.error_code, joined.generation_id) == (MEMBER_ID_REQUIRED, -1)
    member.member_id = joined.member_id
    assert member.ask_join(version).error_code == 0


@pytest.mark.parametrize("version", range(5, 10))
def test_static_member_needs_no_id_to_join(group: Group, version: int) -> None:
    joined = group.member(instance_id="static").ask_join(version)
    assert (joined.error_code, joined.generation_id) == (0, 1)
    assert joined.member_id.startswith("static-")


@pytest.mark.parametrize("version", range(10))
def test_session_timeout_out_of_range_is_refused(group: Group, version: int) -> None:
    for timeout_ms in (99, 0, -1, -(2**31), 1_800_001, 2**31 - 1):
        member = group.member(session_timeout_ms=timeout_ms)
        assert member.ask_join(version).error_code == INVALID_SESSION_TIMEOUT
    assert group.member(session_timeout_ms=1_800_000).ask_join(version).error_code in (0, MEMBER_ID_REQUIRED)


def test_group_without_a_name_is_refused(broker: BrokerProcess) -> None:
    with RawMember(broker.port, "") as member:
        assert member.ask_join().error_code == INVALID_GROUP_ID
        assert member.sync().error_code == INVALID_GROUP_ID
        assert member.heartbeat() == INVALID_GROUP_ID
        assert member.leave() == INVALID_GROUP_ID


def test_unknown_id_can_neither_join_sync_beat_commit_nor_leave(group: Group) -> None:
    stranger = group.member()
    stranger.member_id, stranger.generation = "raw-nobody", 1

    def assert_unknown() -> None:
        assert stranger.ask_join().error_code == UNKNOWN_MEMBER
        assert stranger.sync().error_code == UNKNOWN_MEMBER
        assert stranger.heartbeat() == UNKNOWN_MEMBER
        assert stranger.leave() == UNKNOWN_MEMBER

    assert_unknown()
    rebalance_all(group.member())
    assert_unknown()
    assert stranger.commit("orders", 1) == UNKNOWN_MEMBER


def test_refused_joins_leave_no_group_behind(group: Group, client: RawClient) -> None:
    for options in ({"session_timeout_ms": 1}, {"protocols": ()}, {"protocol_type": ""}):
        assert group.member(**options).ask_join().error_code in (INVALID_SESSION_TIMEOUT, INCONSISTENT_PROTOCOL)
    assert commit(client, group.group_id, "orders", 1, generation=1, member_id="x") == GROUP_NOT_FOUND


def test_member_that_shares_no_protocol_is_refused_and_the_group_is_not_disturbed(group: Group) -> None:
    first = group.member(protocols=("range", "sticky"))
    rebalance_all(first)
    for options in (
        {"protocols": ("roundrobin",)},
        {"protocols": ()},
        {"protocol_type": "connect"},
        {"protocol_type": ""},
    ):
        assert group.member(**options).ask_join().error_code == INCONSISTENT_PROTOCOL
    assert first.heartbeat() == 0


def test_group_that_is_full_refuses_and_goes_on(group: Group) -> None:
    members = [group.member() for _ in range(GROUP_MAX_SIZE)]
    rebalance_all(*members)
    late = group.member()
    assert late.ask_join(3).error_code == GROUP_FULL
    assert late.ask_join().error_code == GROUP_FULL
    assert [member.heartbeat() for member in members] == [0] * GROUP_MAX_SIZE
    assert members[-1].leave() == 0
    first, *others = members[:-1]
    assert first.heartbeat() == REBALANCE_IN_PROGRESS
    late.take_id()
    rebalance_all(first, *others, late)


def test_more_ids_than_places_can_be_given_out_but_not_used(group: Group) -> None:
    members = [group.member() for _ in range(GROUP_MAX_SIZE + 2)]
    first = members[0]
    assert first.join().error_code == 0
    for member in members[1:]:
        member.take_id()
    for member in members[1:]:
        member.send_join()
    eventually(lambda: first.heartbeat() == REBALANCE_IN_PROGRESS)
    first.send_join()
    answers = [member.receive_join() for member in members]
    assert sorted(answer.error_code for answer in answers) == [0] * GROUP_MAX_SIZE + [GROUP_FULL] * 2


# Syncing, heartbeats, leaving


def test_sync_of_another_generation_or_protocol_is_refused(group: Group, client: RawClient) -> None:
    member = group.member()
    assert member.join().error_code == 0
    for generation in (0, 2, -1, 2**31 - 1):
        member.generation = generation
        assert member.sync({member.member_id: b"mine"}).error_code == ILLEGAL_GENERATION
    member.generation = 1
    for protocol_type, protocol_name in (("connect", "range"), ("consumer", "sticky")):
        request = SyncGroupRequest(
            group_id=group.group_id,
            generation_id=1,
            member_id=member.member_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
        )
        assert client.ask(request, 5, SyncGroupResponse).error_code == INCONSISTENT_PROTOCOL
    assert member.sync({member.member_id: b"mine"}).assignment == b"mine"


def test_assignment_counts_only_from_the_leader_and_only_for_members(group: Group) -> None:
    first, second = group.member(), group.member()
    leader = gather(first, second)
    follower = second if leader is first else first
    follower.send_sync({follower.member_id: b"all for me", leader.member_id: b""})
    leader.send_sync({leader.member_id: b"leader", "raw-stranger": b"?"})
    assert leader.receive_sync().assignment == b"leader"
    answer = follower.receive_sync()
    assert (answer.error_code, answer.assignment) == (0, b"")


def test_heartbeat_of_another_generation_is_refused(group: Group) -> None:
    member = group.member()
    rebalance_all(member)
    assert member.heartbeat() == 0
    for generation in (0, 2, -1):
        member.generation = generation
        assert member.heartbeat() == ILLEGAL_GENERATION
        assert member.heartbeat() == ILLEGAL_GENERATION


def test_who_leaves_twice_is_unknown_the_second_time(group: Group, client: RawClient) -> None:
    member = group.member()
    rebalance_all(member)
    assert member.leave() == 0
    assert member.leave() == UNKNOWN_MEMBER
    assert member.heartbeat() == UNKNOWN_MEMBER
    for version in range(LEAVE_VERSION + 1):
        request = LeaveGroupRequest(
            group_id=group.group_id, member_id=member.member_id, members=[MemberIdentity(member_id=member.member_id)]
        )
        response = client.ask(request, version, LeaveGroupResponse)
        assert (response.error_code or response.members[0].error_code) == UNKNOWN_MEMBER


def test_each_of_several_that_leave_has_its_own_error(group: Group, client: RawClient) -> None:
    first, second = group.member(), group.member(instance_id="second")
    rebalance_all(first, second)
    request = LeaveGroupRequest(
        group_id=group.group_id,
        members=[
            MemberIdentity(member_id="raw-nobody"),
            MemberIdentity(member_id="not-this", group_instance_id="second"),
            MemberIdentity(group_instance_id="third"),
            MemberIdentity(group_instance_id="second"),
            MemberIdentity(member_id=first.member_id),
            MemberIdentity(member_id=first.member_id),
        ],
    )
    response = client.ask(request, LEAVE_VERSION, LeaveGroupResponse)
    codes = [member.error_code for member in response.members]
    assert codes == [UNKNOWN_MEMBER, FENCED, UNKNOWN_MEMBER, 0, 0, UNKNOWN_MEMBER]


# Commits


def test_commit_of_an_old_generation_or_of_a_stranger_is_refused(group: Group, client: RawClient) -> None:
    first, second = group.member(), group.member()
    rebalance_all(first)
    assert first.commit("orders", 3) == 0
    rebalance_all(first, second)
    current = first.generation
    for generation in (current - 1, current + 1, 2**31 - 1):
        first.generation = generation
        assert first.commit("orders", 4) == ILLEGAL_GENERATION
    first.generation = current
    for version in range(2, COMMIT_VERSION + 1):
        fields = {"member_id": "raw-nobody", "generation": current, "version": version}
        assert commit(client, group.group_id, "orders", 5, **fields) == UNKNOWN_MEMBER  # type: ignore[arg-type]
        # As if it needed no group, while the group has members.
        assert commit(client, group.group_id, "orders", 5, version=version) == UNKNOWN_MEMBER
    assert committed(client, group.group_id) == {("orders", 0): 3}
    assert first.commit("orders", 6) == 0
    assert committed(client, group.group_id) == {("orders", 0): 6}


def test_commit_before_the_assignment_is_there_is_refused(group: Group, client: RawClient) -> None:
    member = group.member()
    assert member.join().error_code == 0
    assert member.commit("orders", 1) == REBALANCE_IN_PROGRESS
    settle(member, member)
    assert member.commit("orders", 2) == 0
    assert committed(client, group.group_id) == {("orders", 0): 2}


def test_generation_may_commit_while_the_next_one_gathers(group: Group, client: RawClient) -> None:
    first, second = group.member(), group.member()
    rebalance_all(first)
    second.send_join()
    eventually(lambda: first.heartbeat() == REBALANCE_IN_PROGRESS)
    assert first.commit("orders", 7) == 0
    assert committed(client, group.group_id) == {("orders", 0): 7}
    first.send_join()
    assert first.receive_join().error_code == second.receive_join().error_code == 0
    assert first.commit("orders", 8) == REBALANCE_IN_PROGRESS
    settle(first if first.is_leader else second, first, second)
    assert first.commit("orders", 9) == second.commit("orders", 9, partition=1) == 0
    assert committed(client, group.group_id) == {("orders", 0): 9, ("orders", 1): 9}


def test_member_commits_of_a_group_that_is_not_there_are_refused(group: Group, client: RawClient) -> None:
    for version in range(2, COMMIT_VERSION + 1):
        error_code = commit(client, group.group_id, "orders", 1, generation=5, member_id="raw-1", version=version)
        assert error_code == (GROUP_NOT_FOUND if version >= 9 else ILLEGAL_GENERATION)
    assert committed(client, group.group_id) == {}


def test_commit_with_too_long_a_text_or_for_no_partition_is_refused(group: Group, client: RawClient) -> None:
    member = group.member()
    rebalance_all(member)
    assert member.commit("orders", 1, text="x" * 51) == METADATA_TOO_LARGE
    assert member.commit("orders", 1, text="x" * 30_000) == METADATA_TOO_LARGE
    for topic, partition in (("no-such-topic", 0), ("orders", 3), ("orders", -1), ("orders", 2**31 - 1), ("", 0)):
        assert member.commit(topic, 1, partition=partition) == UNKNOWN_TOPIC
    assert committed(client, group.group_id) == {}
    assert member.commit("orders", 1, text="x" * 50) == 0
    assert member.commit("orders", 2, partition=1, text=None) == 0
    assert committed(client, group.group_id) == {("orders", 0): 1, ("orders", 1): 2}


# Two with one instance id


def test_older_of_two_with_one_instance_id_is_fenced_everywhere(group: Group) -> None:
    older, newer = group.member(instance_id="one"), group.member(instance_id="one")
    rebalance_all(older)
    assert newer.join().error_code == 0
    assert newer.generation == older.generation  # no rebalance in a stable group
    assert older.heartbeat() == FENCED
    assert older.sync().error_code == FENCED
    assert older.commit("orders", 1) == FENCED
    assert older.ask_join().error_code == FENCED
    assert older.leave() == FENCED
    assert newer.sync().assignment == older.member_id.encode()  # what was assigned to the place
    assert newer.heartbeat() == 0
    assert newer.commit("orders", 1) == 0


def test_join_that_waits_is_fenced_by_the_next_with_its_instance_id(group: Group) -> None:
    first = group.member()
    rebalance_all(first)
    older, newer = group.member(instance_id="one"), group.member(instance_id="one")
    older.send_join()
    eventually(lambda: first.heartbeat() == REBALANCE_IN_PROGRESS)
    newer.send_join()
    assert older.receive_join().error_code == FENCED
    first.send_join()
    assert first.receive_join().error_code == newer.receive_join().error_code == 0
    settle(first if first.is_leader else newer, first, newer)


def test_sync_that_waits_is_fenced_by_the_next_with_its_instance_id(group: Group) -> None:
    first, older, newer = group.member(), group.member(instance_id="one"), group.member(instance_id="one")
    assert gather(first, older) is first
    older.send_sync()
    newer.send_join()
    assert older.receive_sync().error_code == FENCED
    eventually(lambda: first.heartbeat() == REBALANCE_IN_PROGRESS)
    first.send_join()
    assert first.receive_join().error_code == newer.receive_join().error_code == 0
    settle(first if first.is_leader else newer, first, newer)


# Members that die in a rebalance


def rejoin(*members: RawMember) -> list[JoinGroupResponse]:
    for member in members:
        eventually(lambda member=member: member.heartbeat() == REBALANCE_IN_PROGRESS)  # type: ignore[misc]
    for member in members:
        member.send_join()
    return [member.receive_join() for member in members]


def settle_anew(*members: RawMember) -> None:
    assert [joined.error_code for joined in rejoin(*members)] == [0] * len(members)
    (leader,) = (member for member in members if member.is_leader)
    settle(leader, *members)
    assert [member.heartbeat() for member in members] == [0] * len(members)


@pytest.mark.parametrize("dead", [0, 1, 2])
def test_member_that_never_joins_again_is_dropped_at_the_rebalance_timeout(group: Group, dead: int) -> None:
    members = [group.member(rebalance_timeout_ms=SHORT_MS) for _ in range(3)]
    rebalance_all(*members)
    newcomer = group.member(rebalance_timeout_ms=SHORT_MS)
    newcomer.send_join()
    eventually(lambda: members[dead].heartbeat() == REBALANCE_IN_PROGRESS)
    members.pop(dead).close()
    assert [joined.error_code for joined in rejoin(*members)] == [0, 0]
    assert newcomer.receive_join().error_code == 0
    members.append(newcomer)
    assert len({(member.generation, member.leader_id) for member in members}) == 1
    settle(next(member for member in members if member.is_leader), *members)


@pytest.mark.parametrize("is_leader_dead", [True, False])
@pytest.mark.parametrize("has_synced", [True, False])
def test_member_that_dies_around_its_sync_is_dropped_and_others_settle(
    group: Group, is_leader_dead: bool, has_synced: bool
) -> None:
    members = [group.member(rebalance_timeout_ms=SHORT_MS) for _ in range(3)]
    dying = group.member(rebalance_timeout_ms=SHORT_MS, session_timeout_ms=SHORT_MS)
    if is_leader_dead:
        assert dying.join().error_code == 0
        leader = gather(dying, *members)
        assert leader is dying
    else:
        leader = gather(*members, dying)
        assert leader is not dying
    for member in members:
        if member is not leader:
            member.send_sync()
    if has_synced:
        dying.send_sync()
    dying.close()
    if leader is not dying:
        leader.send_sync({member.member_id: member.member_id.encode() for member in members})
    codes = [member.receive_sync().error_code for member in members]
    # Without its leader nobody gets an assignment; a leader that died after it has sent one gave all of them nothing.
    assert codes == ([REBALANCE_IN_PROGRESS] * 3 if is_leader_dead and not has_synced else [0] * 3)
    settle_anew(*members)


def test_newcomer_that_dies_while_it_waits_is_dropped_and_others_settle(group: Group) -> None:
    members = [group.member(rebalance_timeout_ms=SHORT_MS * 10) for _ in range(2)]
    rebalance_all(*members)
    dying = group.member(session_timeout_ms=SHORT_MS)
    dying.send_join()
    eventually(lambda: members[0].heartbeat() == REBALANCE_IN_PROGRESS)
    dying.close()
    assert [joined.error_code for joined in rejoin(*members)] == [0, 0]
    settle_anew(*members)


def test_id_that_is_never_used_holds_nobody_up_for_longer_than_its_session(group: Group) -> None:
    members = [group.member(), group.member()]
    rebalance_all(*members)
    idle = group.member(session_timeout_ms=SHORT_MS)
    idle.take_id()
    idle.close()
    third = group.member()
    third.send_join()
    eventually(lambda: members[0].heartbeat() == REBALANCE_IN_PROGRESS)
    assert [joined.error_code for joined in rejoin(*members)] == [0, 0]
    assert third.receive_join().error_code == 0


def test_silent_member_of_a_stable_group_is_dropped(group: Group) -> None:
    first, silent = group.member(), group.member(session_timeout_ms=SHORT_MS)
    rebalance_all(first, silent)
    settle_anew(first)
    assert silent.heartbeat() == UNKNOWN_MEMBER
    assert silent.commit("orders", 1) == UNKNOWN_MEMBER


def test_last_member_dies_and_the_group_can_be_used_again(group: Group, client: RawClient) -> None:
    lonely = group.member(session_timeout_ms=SHORT_MS)
    rebalance_all(lonely)
    assert lonely.commit("orders", 4) == 0
    lonely.close()
    eventually(lambda: commit(client, group.group_id, "orders", 5) == 0)  # only in an empty group
    next_one = group.member()
    rebalance_all(next_one)
    assert next_one.generation > lonely.generation
    assert committed(client, group.group_id) == {("orders", 0): 5}


def test_name_with_a_line_break_can_not_forge_a_line_of_the_log(broker: BrokerProcess, client: RawClient) -> None:
    group_id = "innocent\n2026-01-01 ERROR   ottla.broker: forged"
    find_coordinator(client, group_id)
    with RawMember(broker.port, group_id, session_timeout_ms=SHORT_MS, instance_id="one\rtwo\x1b[2J") as member:
        rebalance_all(member)
        eventually(lambda: member.heartbeat() == 0)
    eventually(lambda: commit(client, group_id, "orders", 1) == 0)  # the member is gone, and that was logged too
    assert not any(line.startswith("2026-01-01 ERROR") for line in broker.log.splitlines())
    assert "\x1b" not in broker.log
