"""Groups of foreign clients whose members are killed, come back, or hand partitions over; each member is a process."""

import uuid
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.group_wire import RawMember, committed
from tests.judges.member_processes import (
    CLIENTS,
    Members,
    check_generations,
    check_no_partition_was_owned_twice,
    eventually_read,
    eventually_share,
    members_of,
)
from tests.processes import BrokerProcess, eventually
from tests.raw_wire import RawClient, batch_of

pytestmark = [pytest.mark.process, pytest.mark.slow]

PARTITIONS = 4
SHORT_SESSION_MS = 1_500
LONG_SESSION_MS = 20_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(
        tmp_path_factory.mktemp("broker") / "data",
        "group.initial.rebalance.delay.ms=100",
        "group.min.session.timeout.ms=500",
        "offsets.topic.num.partitions=5",
    ).start()
    yield broker
    assert "Traceback" not in broker.log
    broker.close()


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client


@pytest.fixture
def topic(client: RawClient) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    assert client.create_topic(name, partitions=PARTITIONS) == 0
    return name


@pytest.fixture
def members(broker: BrokerProcess, topic: str) -> Iterator[Members]:
    with members_of(broker, topic) as members:
        yield members


def fill(client: RawClient, topic: str, *, each: int) -> set[tuple[int, int]]:
    """All that is in the topic then, as (partition, offset)."""
    produced = set()
    for partition in range(PARTITIONS):
        for _ in range(each):
            answer = client.produce(topic, batch_of(b"value"), partition=partition)
            assert answer.error_code == 0
        produced |= {(partition, offset) for offset in range(answer.base_offset + 1)}
    return produced


def ends(each: int, topic: str) -> dict[tuple[str, int], int]:
    return {(topic, partition): each for partition in range(PARTITIONS)}


def test_two_groups_each_read_everything_and_the_members_of_one_share_it(
    client: RawClient, topic: str, members: Members
) -> None:
    """Publish and subscribe, and a queue; the queue's members are written in three ways and understand each other."""
    queue = [members.start(name, f"{topic}-queue", session_timeout_ms=LONG_SESSION_MS) for name in CLIENTS]
    alone = members.start("confluent", f"{topic}-alone", session_timeout_ms=LONG_SESSION_MS)
    eventually_share(queue, PARTITIONS)
    eventually_share([alone], PARTITIONS)
    expected = fill(client, topic, each=50)
    eventually_read(queue, expected)
    eventually_read([alone], expected)
    for member in [*queue, alone]:
        member.leave()
    # Exactly once in each group.
    assert Counter(record for member in queue for record in member.records) == Counter(expected)
    assert Counter(alone.records) == Counter(expected)
    assert all(member.records for member in queue)
    for group_id in (f"{topic}-queue", f"{topic}-alone"):
        assert committed(client, group_id) == ends(50, topic)
    check_no_partition_was_owned_twice(queue)


@pytest.mark.parametrize("name", CLIENTS)
def test_members_killed_in_any_phase_are_replaced_and_nothing_is_left_out(
    client: RawClient, topic: str, members: Members, name: str
) -> None:
    group_id = f"{topic}-group"
    staying = members.start(name, group_id, session_timeout_ms=SHORT_SESSION_MS)
    eventually_share([staying], PARTITIONS)
    fill(client, topic, each=20)
    arriving, rebalancing, owning = (
        members.start(name, group_id, session_timeout_ms=SHORT_SESSION_MS) for _ in range(3)
    )
    for victim, is_due in (
        (arriving, lambda: arriving.has_started),
        (rebalancing, lambda: rebalancing.has_started and bool(staying.events("revoked"))),
        (owning, lambda: bool(owning.partitions)),
    ):
        eventually(is_due)
        victim.kill()
        fill(client, topic, each=5)
    last = members.start(name, group_id, session_timeout_ms=SHORT_SESSION_MS)
    eventually_share([staying, last], PARTITIONS)
    expected = fill(client, topic, each=5)
    eventually_read(members.all, expected)
    eventually(lambda: committed(client, group_id) == ends(40, topic))
    staying.kill()
    eventually_share([last], PARTITIONS)
    expected = fill(client, topic, each=5)
    eventually_read(members.all, expected)
    last.leave()
    assert committed(client, group_id) == ends(45, topic)
    check_no_partition_was_owned_twice(members.all)
    check_generations(members.all)


@pytest.mark.parametrize("name", CLIENTS)
def test_static_member_that_is_killed_and_restarted_costs_no_rebalance(
    client: RawClient, topic: str, members: Members, name: str
) -> None:
    group_id = f"{topic}-group"
    staying, killed = (
        members.start(name, group_id, session_timeout_ms=LONG_SESSION_MS, instance_id=instance_id)
        for instance_id in ("staying", "killed")
    )
    eventually_share([staying, killed], PARTITIONS)
    before = [member.partitions for member in (staying, killed)]
    assigned_before = staying.events("assigned", "revoked")
    fill(client, topic, each=10)
    eventually(lambda: committed(client, group_id) == ends(10, topic))
    for _ in range(2):
        members.all[-1].kill()
        restarted = members.start(name, group_id, session_timeout_ms=LONG_SESSION_MS, instance_id="killed")
        eventually(lambda restarted=restarted: bool(restarted.partitions))  # type: ignore[misc]
        assert [staying.partitions, restarted.partitions] == before
        assert set(restarted.generations) <= set(staying.generations[-1:])
    expected = fill(client, topic, each=10)
    eventually_read([staying, restarted], {(partition, offset) for partition, offset in expected if offset >= 10})
    assert staying.events("assigned", "revoked") == assigned_before
    assert all(offset >= 10 for _, offset in restarted.records)  # it goes on where the killed one committed
    check_no_partition_was_owned_twice(members.all)


@pytest.mark.parametrize("name", ["confluent", "kafka-python"])
def test_cooperative_member_goes_on_receiving_while_a_rebalance_is_held_up(
    client: RawClient, broker: BrokerProcess, topic: str, members: Members, name: str
) -> None:
    group_id = f"{topic}-group"
    cooperative = {"protocols": ["cooperative-sticky"], "topics": [topic]}
    # Without commits: one would wait on its connection behind the join that is held up, and the member with it.
    cooperative_member = {"session_timeout_ms": LONG_SESSION_MS, "assignor": "cooperative-sticky", "commits": False}
    first = members.start(name, group_id, **cooperative_member)
    eventually_share([first], PARTITIONS)
    with (
        RawMember(broker.port, group_id, session_timeout_ms=300_000, **cooperative) as absent,  # type: ignore[arg-type]
        RawMember(
            broker.port,
            group_id,
            session_timeout_ms=SHORT_SESSION_MS,
            rebalance_timeout_ms=300_000,  # only the one that is absent ends the rebalance
            **cooperative,  # type: ignore[arg-type]
        ) as newcomer,
    ):
        absent.take_id()  # and does not join: everybody waits for it
        newcomer.send_join()
        newcomer.client.socket.settimeout(0.01)
        for _ in range(3):
            expected = fill(client, topic, each=5)
            eventually_read([first], expected)
        try:
            told = newcomer.client.socket.recv(4096)
        except TimeoutError:
            told = None  # still in the rebalance
        assert told is None, broker.log[-2000:]
        assert first.partitions == set(range(PARTITIONS))
        assert first.events("revoked") == []
        newcomer.client.socket.settimeout(15)
        assert absent.leave() == 0
        assert newcomer.receive_join().error_code == 0
    # The newcomer dies with its share; the one that stayed gets it back.
    second = members.start(name, group_id, **cooperative_member)
    eventually_share([first, second], PARTITIONS)
    kept = first.partitions
    revoked = {partition for event in first.events("revoked") for partition in event["partitions"]}
    assert kept & revoked == set() or name == "kafka-python"
    expected = fill(client, topic, each=5)
    eventually_read(members.all, expected)
    second.leave()
    eventually_share([first], PARTITIONS)
    check_no_partition_was_owned_twice(members.all)
