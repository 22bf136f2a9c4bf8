"""confluent-kafka (librdkafka) as a judge of groups: rebalances, cooperative hand-over, static members, commits."""

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.judges.conftest import NO_INITIAL_DELAY
from tests.judges.messages import SOME_TIME_MS
from tests.judges.messages import Message as Sent
from tests.judges.test_confluent_kafka import new_topic, produce_all, producer_for
from tests.processes import BrokerProcess

pytestmark = pytest.mark.process

PARTITIONS = 4


class Member:
    """A consumer of a group, with what its callbacks told of its partitions."""

    def __init__(self, broker: BrokerProcess, group_id: str, topic: str, **settings: Any) -> None:
        named = {key.replace("_", "."): value for key, value in settings.items()}
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.address,
                "group.id": group_id,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 200,
                "session.timeout.ms": 6000,
                **named,
            }
        )
        self.revoked: list[set[int]] = []
        self.assigned: list[set[int]] = []
        self.messages: list[Message] = []
        self.consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned.append({partition.partition for partition in partitions})

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.revoked.append({partition.partition for partition in partitions})

    @property
    def partitions(self) -> set[int]:
        return {partition.partition for partition in self.consumer.assignment()}

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        if message is not None:
            assert message.error() is None, message.error()
            self.messages.append(message)

    def close(self) -> None:
        self.consumer.close()


def poll_until(members: Sequence[Member], condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline_s, [member.partitions for member in members]
        for member in members:
            member.poll()


def fill(broker: BrokerProcess, topic: str, *, each: int = 10) -> None:
    producer = producer_for(broker)
    for partition in range(PARTITIONS):
        messages = [Sent(None, b"%d-%d" % (partition, number), (), SOME_TIME_MS) for number in range(each)]
        produce_all(producer, topic, messages, partition=partition)


def new_group() -> str:
    return f"confluent-{uuid.uuid4().hex[:8]}"


def committed(broker: BrokerProcess, group_id: str, topic: str) -> list[int]:
    admin = AdminClient({"bootstrap.servers": broker.address})
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id)]).values()
    found = {partition.partition: partition.offset for partition in future.result(10).topic_partitions}
    return [found.get(partition, -1) for partition in range(PARTITIONS)]


def test_group_reads_everything_once_and_goes_on_where_it_committed(group_broker: BrokerProcess) -> None:
    topic, group_id = new_topic(group_broker, partitions=PARTITIONS), new_group()
    fill(group_broker, topic)
    first = Member(group_broker, group_id, topic)
    poll_until([first], lambda: len(first.messages) == 40)
    first.consumer.commit(asynchronous=False)
    first.close()
    assert committed(group_broker, group_id, topic) == [10] * PARTITIONS
    fill(group_broker, topic, each=1)
    second = Member(group_broker, group_id, topic)
    poll_until([second], lambda: len(second.messages) == 4)
    second.close()
    assert {message.offset() for message in second.messages} == {10}


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_partitions_are_shared_when_a_member_comes_and_taken_over_when_it_goes(
    group_broker: BrokerProcess, assignor: str
) -> None:
    topic, group_id = new_topic(group_broker, partitions=PARTITIONS), new_group()
    first = Member(group_broker, group_id, topic, partition_assignment_strategy=assignor)
    poll_until([first], lambda: len(first.partitions) == 4)
    second = Member(group_broker, group_id, topic, partition_assignment_strategy=assignor)
    both = [first, second]
    poll_until(both, lambda: [len(member.partitions) for member in both] == [2, 2])
    assert first.partitions | second.partitions == {0, 1, 2, 3}
    second.close()
    poll_until([first], lambda: len(first.partitions) == 4)
    first.close()


def test_two_groups_read_the_same_topic_each_on_its_own(group_broker: BrokerProcess) -> None:
    topic = new_topic(group_broker, partitions=PARTITIONS)
    fill(group_broker, topic, each=5)
    members = [Member(group_broker, new_group(), topic) for _ in range(2)]
    poll_until(members, lambda: [len(member.messages) for member in members] == [20, 20])
    for member in members:
        member.close()


def test_cooperative_hand_over_takes_only_what_the_new_member_gets(group_broker: BrokerProcess) -> None:
    topic, group_id = new_topic(group_broker, partitions=PARTITIONS), new_group()
    first = Member(group_broker, group_id, topic, partition_assignment_strategy="cooperative-sticky")
    poll_until([first], lambda: len(first.partitions) == 4)
    second = Member(group_broker, group_id, topic, partition_assignment_strategy="cooperative-sticky")
    both = [first, second]
    poll_until(both, lambda: [len(member.partitions) for member in both] == [2, 2])
    # What it kept was never taken from it.
    assert [revoked for revoked in first.revoked if revoked] == [second.partitions]
    second.close()
    poll_until([first], lambda: len(first.partitions) == 4)
    first.close()


def test_static_member_that_is_restarted_gets_its_partitions_back_without_a_rebalance(
    group_broker: BrokerProcess,
) -> None:
    topic, group_id = new_topic(group_broker, partitions=PARTITIONS), new_group()
    staying = Member(group_broker, group_id, topic, group_instance_id="staying")
    restarted = Member(group_broker, group_id, topic, group_instance_id="restarted")
    both = [staying, restarted]
    poll_until(both, lambda: [len(member.partitions) for member in both] == [2, 2])
    owned = restarted.partitions
    rebalances = len(staying.assigned)
    restarted.close()  # a static member does not leave
    again = Member(group_broker, group_id, topic, group_instance_id="restarted")
    poll_until([staying, again], lambda: again.partitions == owned)
    assert len(staying.assigned) == rebalances
    staying.close()
    again.close()


def test_groups_are_listed_described_and_deleted(group_broker: BrokerProcess) -> None:
    topic, group_id = new_topic(group_broker, partitions=PARTITIONS), new_group()
    admin = AdminClient({"bootstrap.servers": group_broker.address})
    member = Member(group_broker, group_id, topic, client_id="reader")
    poll_until([member], lambda: len(member.partitions) == 4)
    listed = {group.group_id: group.state for group in admin.list_consumer_groups().result(10).valid}
    assert listed[group_id] is ConsumerGroupState.STABLE
    described = admin.describe_consumer_groups([group_id])[group_id].result(10)
    assert (described.state, described.partition_assignor) == (ConsumerGroupState.STABLE, "range")
    (seen,) = described.members
    assert (seen.client_id, seen.host) == ("reader", "/127.0.0.1")
    assert {partition.partition for partition in seen.assignment.topic_partitions} == {0, 1, 2, 3}
    with pytest.raises(Exception, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups([group_id])[group_id].result(10)
    member.close()
    admin.delete_consumer_groups([group_id])[group_id].result(10)
    assert group_id not in {group.group_id for group in admin.list_consumer_groups().result(10).valid}


def test_offsets_of_a_group_are_set_from_outside(group_broker: BrokerProcess) -> None:
    topic, group_id = new_topic(group_broker, partitions=PARTITIONS), new_group()
    fill(group_broker, topic)
    admin = AdminClient({"bootstrap.servers": group_broker.address})
    wanted = [TopicPartition(topic, partition, 7 + partition) for partition in range(PARTITIONS)]
    (future,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id, wanted)]).values()
    future.result(10)
    member = Member(group_broker, group_id, topic)
    poll_until([member], lambda: len(member.messages) == 3 + 2 + 1 + 0)
    member.close()


def test_consumer_that_assigns_itself_commits_too(group_broker: BrokerProcess) -> None:
    topic, group_id = new_topic(group_broker, partitions=PARTITIONS), new_group()
    settings = {"bootstrap.servers": group_broker.address, "group.id": group_id, "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 2)])
    consumer.commit(offsets=[TopicPartition(topic, 2, 5, metadata="by hand")], asynchronous=False)
    (found,) = consumer.committed([TopicPartition(topic, 2)], timeout=10)
    assert (found.offset, found.metadata) == (5, "by hand")
    consumer.close()


@pytest.mark.parametrize("is_killed", [True, False])
def test_member_goes_on_over_a_restart_of_the_broker(
    start_broker: Callable[..., BrokerProcess], is_killed: bool
) -> None:
    broker = start_broker(NO_INITIAL_DELAY)
    topic, group_id = new_topic(broker, partitions=PARTITIONS), new_group()
    fill(broker, topic)
    member = Member(broker, group_id, topic, session_timeout_ms=30_000)
    poll_until([member], lambda: len(member.messages) == 40)
    member.consumer.commit(asynchronous=False)
    if is_killed:
        broker.kill()
        broker.start()
    else:
        broker.restart()
    assert committed(broker, group_id, topic) == [10] * PARTITIONS
    fill(broker, topic, each=1)
    poll_until([member], lambda: len(member.messages) == 44)
    assert len(member.assigned) == 1  # its generation lives on
    member.consumer.commit(asynchronous=False)
    assert committed(broker, group_id, topic) == [11] * PARTITIONS
    member.close()
    assert "Traceback" not in broker.log


def test_no_bug_was_met(group_broker: BrokerProcess) -> None:
    assert "Traceback" not in group_broker.log
