"""Whatever a user does and a cluster fails at, in any order: each partition's records come in order, without a gap."""

import random

import pytest

from ottla.clients.consumer.reset import EARLIEST
from ottla.clients.consumer.values import OffsetAndMetadata
from ottla.clients.errors import BrokerError
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.protocol.apis import ApiKey
from tests.clients.consumer.rig import Rig

PLACES = [TopicPartition("t", number) for number in range(3)]
FETCH_ERRORS = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.CORRUPT_MESSAGE]
GROUP_ERRORS = [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
COMMIT_ERRORS = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]


def read(rig: Rig, expected: dict[TopicPartition, int], timeout_ms: int) -> int:
    try:
        records = rig.poll(timeout_ms)
    except BrokerError:
        return 0
    for record in records:
        topic_partition = TopicPartition(record.topic, record.partition)
        assert not rig.core.subscription.states[topic_partition].is_paused
        assert record.offset == expected[topic_partition]
        assert record.value == b"%d" % record.offset
        expected[topic_partition] += 1
    return len(records)


@pytest.mark.parametrize("seed", range(12))
def test_assigned_partitions_are_read_in_order_whatever_happens(seed: int) -> None:
    choose = random.Random(seed)
    rig = Rig(topics={"t": 3}, brokers=2, group_id="g", max_poll_records=7, fetch_max_wait_ms=20)
    for topic_partition in PLACES:
        rig.put(topic_partition, *(b"%d" % number for number in range(40)))
    expected = dict.fromkeys(PLACES, 0)
    rig.session.assign(PLACES)
    read(rig, expected, 100)
    for _ in range(150):
        topic_partition = choose.choice(PLACES)
        state = rig.core.subscription.states[topic_partition]
        match choose.choice(["poll"] * 8 + ["seek", "begin", "pause", "wait", "put", "fail", "cut", "move", "commit"]):
            case "poll":
                read(rig, expected, choose.choice([0, 5, 60]))
            case "seek":
                expected[topic_partition] = choose.randrange(40)
                rig.core.seek(topic_partition, OffsetAndMetadata(expected[topic_partition]))
            case "begin":
                expected[topic_partition] = 0
                rig.core.seek_by([topic_partition], EARLIEST)
            case "pause":
                rig.core.set_paused([topic_partition], is_paused=not state.is_paused)
            case "wait":
                rig.network.advance(choose.choice([1, 30, 500]))
            case "put":
                rig.put(topic_partition, *(b"%d" % (len(rig.logs[topic_partition]) + number) for number in range(5)))
            case "fail":
                rig.fail_next(ApiKey.FETCH, choose.choice(FETCH_ERRORS))
            case "cut":
                rig.network.cut(choose.choice([1, 2]))
            case "move":
                rig.network.move_leader("t", topic_partition.partition, choose.choice([1, 2]))
            case "commit":
                rig.fail_next(ApiKey.OFFSET_COMMIT, choose.choice(COMMIT_ERRORS))
                rig.session.commit_async(None, None)
    rig.codes.clear()
    rig.core.set_paused(PLACES, is_paused=False)
    for _ in range(200):
        if all(expected[topic_partition] == len(rig.logs[topic_partition]) for topic_partition in PLACES):
            break
        read(rig, expected, 100)
    assert expected == {topic_partition: len(rig.logs[topic_partition]) for topic_partition in PLACES}
    rig.run(rig.session.commit(None, None))
    assert {topic_partition: offset for topic_partition, (offset, _) in rig.committed.items()} == expected


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("seed", range(6))
def test_a_member_comes_back_from_everything_that_a_coordinator_does(seed: int, strategy: str) -> None:
    choose = random.Random(seed)
    rig = Rig(
        topics={"t": 3},
        group_id="g",
        partition_assignment_strategy=strategy,
        heartbeat_interval_ms=50,
        max_poll_records=3,
    )
    for topic_partition in PLACES:
        rig.put(topic_partition, *(b"%d" % number for number in range(30)))
    rig.subscribe("t")
    seen: dict[TopicPartition, set[int]] = {topic_partition: set() for topic_partition in PLACES}

    def poll() -> None:
        try:
            for record in rig.poll(choose.choice([5, 60])):
                seen[TopicPartition(record.topic, record.partition)].add(record.offset)
        except BrokerError:
            pass

    for _ in range(80):
        poll()
        if choose.random() < 0.3:
            api_key = choose.choice([ApiKey.HEARTBEAT, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP])
            rig.fail_next(api_key, choose.choice(GROUP_ERRORS))
        if choose.random() < 0.1:
            rig.network.cut(1)
        if choose.random() < 0.2:
            rig.network.advance(100)
    rig.codes.clear()
    for _ in range(200):
        poll()
    assert seen == {topic_partition: set(range(30)) for topic_partition in PLACES}
    assert rig.core.group is not None
    assert rig.core.group.phase.name == "STABLE"
    assert set(rig.core.subscription.states) == set(PLACES)
