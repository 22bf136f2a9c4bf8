"""kafka-python as a judge of groups: members in threads of their own, cooperative hand-over, and its admin client."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import GroupSubscribedToTopicError, NoError
from kafka.structs import OffsetAndMetadata

from tests.judges.conftest import NO_INITIAL_DELAY
from tests.judges.messages import SOME_TIME_MS, Message
from tests.judges.test_kafka_python import admin_for, new_topic, produce_all, producer_for
from tests.processes import BrokerProcess, eventually

pytestmark = pytest.mark.process

PARTITIONS = 4
# A poll that ends while its consumer joins loses the assignment for good (seen with kafka-python 3.0.12): long enough.
POLL_MS = 1000


class Member:
    """A consumer that polls in a thread of its own until it is closed."""

    def __init__(self, broker: BrokerProcess, group_id: str, topic: str, *, assignor: Any, **settings: Any) -> None:
        self.consumer = KafkaConsumer(
            topic,
            bootstrap_servers=broker.address,
            group_id=group_id,
            **{
                "auto_offset_reset": "earliest",
                "enable_auto_commit": False,
                "fetch_max_wait_ms": 50,
                "heartbeat_interval_ms": 200,
                "partition_assignment_strategy": (assignor,),
                "retry_backoff_ms": 50,
                **settings,
            },
        )
        self.records: list[Any] = []
        self.partitions: set[int] = set()
        self.wants_commit = threading.Event()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _poll(self) -> None:
        while not self._is_closed.is_set():
            for records in self.consumer.poll(timeout_ms=POLL_MS).values():
                self.records += records
            self.partitions = {partition.partition for partition in self.consumer.assignment()}
            if self.wants_commit.is_set():
                self.consumer.commit()
                self.wants_commit.clear()
        self.consumer.close()

    def commit(self) -> None:
        self.wants_commit.set()
        eventually(lambda: not self.wants_commit.is_set())

    def close(self) -> None:
        self._is_closed.set()
        self._thread.join(30)
        assert not self._thread.is_alive()


@contextmanager
def member_of(
    broker: BrokerProcess, group_id: str, topic: str, *, assignor: Any = RangePartitionAssignor, **settings: Any
) -> Iterator[Member]:
    member = Member(broker, group_id, topic, assignor=assignor, **settings)
    try:
        yield member
    finally:
        member.close()


def fill(broker: BrokerProcess, topic: str, *, each: int = 10) -> None:
    with producer_for(broker) as producer:
        for partition in range(PARTITIONS):
            messages = [Message(None, b"%d" % number, (), SOME_TIME_MS) for number in range(each)]
            produce_all(producer, topic, messages, partition=partition)


def new_group() -> str:
    return f"kafka-python-{uuid.uuid4().hex[:8]}"


def committed(broker: BrokerProcess, group_id: str, topic: str) -> list[int]:
    with admin_for(broker) as admin:
        found = admin.list_group_offsets(group_id)[group_id]
    return [found[TopicPartition(topic, partition)].offset for partition in range(PARTITIONS)]


def test_group_reads_everything_once_and_goes_on_where_it_committed(group_broker: BrokerProcess) -> None:
    topic, group_id = new_topic(group_broker, partitions=PARTITIONS), new_group()
    fill(group_broker, topic)
    with member_of(group_broker, group_id, topic) as first:
        eventually(lambda: len(first.records) == 40)
        first.commit()
    assert committed(group_broker, group_id, topic) == [10] * PARTITIONS
    fill(group_broker, topic, each=1)
    with member_of(group_broker, group_id, topic) as second:
        eventually(lambda: len(second.records) == 4)
        assert {record.offset for record in second.records} == {10}


@pytest.mark.parametrize("assignor", [RangePartitionAssignor, CooperativeStickyAssignor])
def test_partitions_are_shared_when_a_member_comes_and_taken_over_when_it_goes(
    group_broker: BrokerProcess, assignor: Any
) -> None:
    topic, group_id = new_topic(group_broker, partitions=PARTITIONS), new_group()
    with member_of(group_broker, group_id, topic, assignor=assignor) as first:
        eventually(lambda: len(first.partitions) == 4)
        with member_of(group_broker, group_id, topic, assignor=assignor) as second:
            eventually(lambda: len(first.partitions) == len(second.partitions) == 2)
            assert first.partitions | second.partitions == {0, 1, 2, 3}
        eventually(lambda: len(first.partitions) == 4)


def test_admin_client_sees_changes_and_deletes_groups(group_broker: BrokerProcess) -> None:
    topic, group_id = new_topic(group_broker, partitions=PARTITIONS), new_group()
    fill(group_broker, topic)
    partition = TopicPartition(topic, 0)
    with admin_for(group_broker) as admin:
        with member_of(group_broker, group_id, topic, client_id="reader") as member:
            eventually(lambda: len(member.records) == 40)
            member.commit()
            described = admin.describe_groups([group_id])[group_id]
            assert (described["group_state"], described["protocol_type"]) == ("Stable", "consumer")
            assert [entry["client_id"] for entry in described["members"]] == ["reader"]
            assert admin.delete_groups([group_id]) == {group_id: "NonEmptyGroupError"}
            assert admin.delete_group_offsets(group_id, [partition]) == {partition: GroupSubscribedToTopicError}
        listed = {entry["group_id"]: entry for entry in admin.list_groups()}
        assert listed[group_id]["group_state"] == "Empty"
        assert group_id not in {entry["group_id"] for entry in admin.list_groups(states_filter=["Stable"])}
        admin.alter_group_offsets(group_id, {partition: OffsetAndMetadata(4, "", -1)})
        assert committed(group_broker, group_id, topic) == [4, 10, 10, 10]
        assert admin.delete_group_offsets(group_id, [partition]) == {partition: NoError}
        assert partition not in admin.list_group_offsets(group_id)[group_id]
        assert admin.delete_groups([group_id]) == {group_id: "OK"}
        assert group_id not in {entry["group_id"] for entry in admin.list_groups()}


def test_commits_survive_a_killed_broker(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(NO_INITIAL_DELAY)
    topic, group_id = new_topic(broker, partitions=PARTITIONS), new_group()
    fill(broker, topic)
    with member_of(broker, group_id, topic, session_timeout_ms=30_000) as member:
        eventually(lambda: len(member.records) == 40)
        member.commit()
        broker.kill()
        broker.start()
        assert committed(broker, group_id, topic) == [10] * PARTITIONS
        fill(broker, topic, each=1)
        eventually(lambda: len(member.records) == 44)
        member.commit()
    assert committed(broker, group_id, topic) == [11] * PARTITIONS
    assert "Traceback" not in broker.log


def test_no_bug_was_met(group_broker: BrokerProcess) -> None:
    assert "Traceback" not in group_broker.log
