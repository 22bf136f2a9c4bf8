"""kafka-consumer-groups against our broker: list, describe, reset in every way, deletion of offsets and groups."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from interop.broker_process import BrokerProcess
from interop.conftest import CreateTopic
from interop.java_tools import VerifiableConsumer, consumer_groups, eventually, group_rows, reset_offsets

pytestmark = pytest.mark.usefixtures("kafka_tools")

RECORDS = 10
BEFORE_MS = 1_700_000_000_000
Fill = Callable[[str], str]


@pytest.fixture(scope="module")
def fill(broker: BrokerProcess, create_topic: CreateTopic) -> Fill:
    """Makes a topic of two partitions with ten records each, a second apart from BEFORE_MS on."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})

    def make(name: str) -> str:
        topic = create_topic(name, partitions=2)
        for number in range(RECORDS):
            for partition in range(2):
                producer.produce(topic, str(number), partition=partition, timestamp=BEFORE_MS + 1000 * number)
        assert producer.flush(30) == 0
        return topic

    return make


def commit(broker: BrokerProcess, group: str, topic: str, offset: int) -> None:
    """As a consumer without a membership does."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    wish = [TopicPartition(topic, partition, offset) for partition in range(2)]
    assert all(place.error is None for place in consumer.commit(offsets=wish, asynchronous=False))
    consumer.close()


def committed(broker: BrokerProcess, group: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    places = consumer.committed([TopicPartition(topic, partition) for partition in range(2)], timeout=30)
    consumer.close()
    return [place.offset for place in places]


@pytest.mark.smoke
def test_group_is_listed_and_described(broker: BrokerProcess, fill: Fill) -> None:
    topic, group = fill("described"), "describes"
    arguments = ["--reset-policy", "earliest", "--enable-autocommit"]
    with VerifiableConsumer(broker, topic, group, *arguments) as member:
        eventually(lambda: member.consumed == 2 * RECORDS, what=lambda: member.events)
        states = consumer_groups(broker, "--list", "--state", "stable", "--type", "classic")
        assert any(line.split() == [group, "Classic", "Stable"] for line in states.splitlines()), states
        (state,) = group_rows(broker, group, "--state")
        assert state[1] == broker.bootstrap
        assert state[-3:] == ["range", "Stable", "1"]
        (row,) = group_rows(broker, group, "--members", "--verbose")
        assert row[2] == "/127.0.0.1"
        assert row[4] == "2"
        assert f"{topic}:0,1" in row
        offsets = group_rows(broker, group)
        assert [each[1:3] for each in offsets] == [[topic, "0"], [topic, "1"]]
        assert {each[7] for each in offsets} == {"/127.0.0.1"}
    (left,) = group_rows(broker, group, "--state")
    assert left[-2:] == ["Empty", "0"]


RESETS = [
    (["--to-earliest"], 0),
    (["--to-latest"], RECORDS),
    (["--to-offset", "3"], 3),
    (["--to-offset", "99"], RECORDS),
    (["--shift-by", "2"], 7),
    (["--shift-by", "-2"], 3),
    (["--to-current"], 5),
    (["--to-datetime", datetime.fromtimestamp(BEFORE_MS / 1000 + 6, UTC).strftime("%Y-%m-%dT%H:%M:%S.000")], 6),
    (["--by-duration", "PT1S"], RECORDS),
]


@pytest.fixture(scope="module")
def planned_topic(fill: Fill) -> str:
    return fill("planned")


@pytest.mark.parametrize(("wish", "expected"), RESETS, ids=[" ".join(wish) for wish, _ in RESETS])
def test_dry_run_tells_the_offsets_and_sets_none(
    broker: BrokerProcess, planned_topic: str, wish: list[str], expected: int
) -> None:
    topic, group = planned_topic, "plans"
    commit(broker, group, topic, 5)
    planned = reset_offsets(broker, group, "--topic", topic, *wish, execute=False)
    assert planned == {(topic, 0): expected, (topic, 1): expected}
    assert committed(broker, group, topic) == [5, 5]


def test_reset_is_executed_for_one_partition_and_for_all(broker: BrokerProcess, fill: Fill) -> None:
    topic, group = fill("executed"), "executes"
    commit(broker, group, topic, 5)
    reset_offsets(broker, group, "--topic", f"{topic}:1", "--shift-by", "-4", execute=True)
    assert committed(broker, group, topic) == [5, 1]
    reset_offsets(broker, group, "--all-topics", "--to-offset", "8", execute=True)
    assert committed(broker, group, topic) == [8, 8]


@pytest.mark.smoke
def test_exported_plan_is_executed_from_its_file(broker: BrokerProcess, fill: Fill, tmp_path: Path) -> None:
    topic, group = fill("from-file"), "from-file"
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,4\n{topic},1,9\n")
    set_to = reset_offsets(broker, group, "--from-file", str(plan), execute=True)
    assert set_to == {(topic, 0): 4, (topic, 1): 9}
    assert committed(broker, group, topic) == [4, 9]


def test_group_with_members_is_neither_reset_nor_deleted(broker: BrokerProcess, fill: Fill) -> None:
    topic, group = fill("in-use"), "in-use"
    with VerifiableConsumer(broker, topic, group) as member:
        eventually(lambda: len(member.owned) == 2, what=lambda: member.events)
        wish = ["--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute"]
        assert "can only be reset if the group" in consumer_groups(broker, *wish)
        assert "GroupNotEmptyException" in consumer_groups(broker, "--delete", "--group", group)
        wish = ["--delete-offsets", "--group", group, "--topic", topic]
        assert "GroupSubscribedToTopicException" in consumer_groups(broker, *wish)


@pytest.mark.smoke
def test_offsets_of_a_topic_and_then_the_group_are_deleted(broker: BrokerProcess, fill: Fill) -> None:
    kept, dropped, group = fill("kept"), fill("dropped"), "deletes"
    commit(broker, group, kept, 5)
    commit(broker, group, dropped, 6)
    printed = consumer_groups(broker, "--delete-offsets", "--group", group, "--topic", dropped)
    assert "succeed" in printed
    assert [row[1:4] for row in group_rows(broker, group)] == [[kept, "0", "5"], [kept, "1", "5"]]
    assert "was successful" in consumer_groups(broker, "--delete", "--group", group)
    assert group not in consumer_groups(broker, "--list").split()
    assert "not found" in consumer_groups(broker, "--describe", "--group", group)


def test_lag_of_an_empty_group_is_shown(broker: BrokerProcess, fill: Fill) -> None:
    topic, group = fill("lagging"), "lags"
    commit(broker, group, topic, 4)
    rows = group_rows(broker, group)
    assert [row[:6] for row in rows] == [
        [group, topic, "0", "4", "10", "6"],
        [group, topic, "1", "4", "10", "6"],
    ]
