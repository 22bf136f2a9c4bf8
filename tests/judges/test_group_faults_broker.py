"""Groups of foreign clients while their broker is killed: members go on, and no acknowledged commit is lost."""

import time
import uuid
from collections.abc import Callable

import pytest

from tests.group_wire import committed, find_coordinator
from tests.judges.member_processes import (
    CLIENTS,
    check_commits_kept,
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
SESSION_MS = 20_000
KILLS = 3


def fill(port: int, topic: str, *, each: int) -> set[tuple[int, int]]:
    """All that is in the topic then, as (partition, offset)."""
    produced = set()
    with RawClient(port) as client:
        for partition in range(PARTITIONS):
            for _ in range(each):
                answer = client.produce(topic, batch_of(b"value"), partition=partition)
                assert answer.error_code == 0
            produced |= {(partition, offset) for offset in range(answer.base_offset + 1)}
    return produced


def committed_now(port: int, group_id: str, topic: str) -> list[int]:
    with RawClient(port) as client:
        find_coordinator(client, group_id)
        offsets = committed(client, group_id)
    return [offsets.get((topic, partition), -1) for partition in range(PARTITIONS)]


@pytest.mark.parametrize("client", CLIENTS)
def test_group_lives_through_kills_of_its_broker(start_broker: Callable[..., BrokerProcess], client: str) -> None:
    broker = start_broker("group.initial.rebalance.delay.ms=100", "offsets.topic.num.partitions=5")
    topic, group_id = "topic", f"{client}-{uuid.uuid4().hex[:8]}"
    with RawClient(broker.port) as raw:
        assert raw.create_topic(topic, partitions=PARTITIONS) == 0
    with members_of(broker, topic) as members:
        pair = [members.start(client, group_id, session_timeout_ms=SESSION_MS) for _ in range(2)]
        eventually_share(pair, PARTITIONS)
        seen: list[int] = [-1] * PARTITIONS
        for _ in range(KILLS):
            records_before = sum(len(member.records) for member in pair)
            fill(broker.port, topic, each=40)
            eventually(lambda before=records_before: sum(len(m.records) for m in pair) > before + 20)  # type: ignore[misc]
            broker.kill()  # most likely between a commit and the next
            killed_at_s = time.monotonic()
            broker.start()
            after = committed_now(broker.port, group_id, topic)
            check_commits_kept(pair, after, until_s=killed_at_s)
            assert all(new >= old for new, old in zip(after, seen, strict=True))
            seen = after
        expected = fill(broker.port, topic, each=10)
        eventually_read(pair, expected)
        end = 40 * KILLS + 10
        eventually(lambda: committed_now(broker.port, group_id, topic) == [end] * PARTITIONS)
        for member in pair:
            member.leave()
        check_no_partition_was_owned_twice(pair)
        check_generations(pair)
        # Nobody was thrown out: the group was the same after each start.
        assert all("sent no heartbeat" not in line for line in broker.log.splitlines())
    assert "Traceback" not in broker.log


def test_group_is_stopped_in_the_middle_of_a_rebalance_and_settles_after_the_start(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    """The members that wait for the next generation, and those that come while nobody answers, are one group later."""
    broker = start_broker("group.initial.rebalance.delay.ms=100", "offsets.topic.num.partitions=5")
    topic, group_id = "topic", "mixed"
    with RawClient(broker.port) as raw:
        assert raw.create_topic(topic, partitions=PARTITIONS) == 0
    with members_of(broker, topic) as members:
        first = members.start("confluent", group_id, session_timeout_ms=SESSION_MS)
        eventually_share([first], PARTITIONS)
        expected = fill(broker.port, topic, each=20)
        others = [members.start(name, group_id, session_timeout_ms=SESSION_MS) for name in ("aiokafka", "kafka-python")]
        eventually(lambda: any(member.has_started for member in others))
        broker.kill()
        broker.start()
        eventually_share(members.all, PARTITIONS)
        eventually_read(members.all, expected)
        eventually(lambda: committed_now(broker.port, group_id, topic) == [20] * PARTITIONS)
        check_no_partition_was_owned_twice(members.all)
    assert "Traceback" not in broker.log
