"""Kafka's verifiable producer and consumer against our broker: rebalances, static members, cooperative hand-over."""

import json

import pytest

from interop.broker_process import BrokerProcess
from interop.conftest import CreateTopic
from interop.java_tools import TOOLS, VerifiableConsumer, connect, eventually
from interop.kafka_peer import run_tool

pytestmark = pytest.mark.usefixtures("kafka_tools")

COOPERATIVE = ["--assignment-strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"]


def produce(broker: BrokerProcess, topic: str, count: int) -> None:
    """With keys, so that every partition gets some."""
    wish = [*connect(broker), "--topic", topic, "--max-messages", str(count), "--repeating-keys", "100"]
    events = [json.loads(line) for line in run_tool(f"{TOOLS}.VerifiableProducer", wish).stdout.splitlines()]
    assert sum(event["name"] == "producer_send_success" for event in events) == count
    assert events[-1] == {**events[-1], "name": "tool_data", "sent": count, "acked": count}


def settled(*members: VerifiableConsumer, partitions: int) -> bool:
    """Each has a share, no two have the same partition, and together they have all."""
    shares = [member.owned for member in members]
    whole = set(range(partitions))
    return all(shares) and sum(map(len, shares)) == partitions and set().union(*shares) == whole


@pytest.mark.smoke
def test_two_members_share_and_the_second_takes_over_when_the_first_leaves(
    broker: BrokerProcess, create_topic: CreateTopic
) -> None:
    topic, group = create_topic("java-members", partitions=4), "java-members"
    with VerifiableConsumer(broker, topic, group) as second:
        eventually(lambda: second.owned == {0, 1, 2, 3}, what=lambda: second.events)
        with VerifiableConsumer(broker, topic, group) as first:
            eventually(lambda: settled(first, second, partitions=4), what=lambda: (first.events, second.events))
            produce(broker, topic, 1000)
            eventually(lambda: first.consumed + second.consumed == 1000, what=lambda: (first.events, second.events))
            assert first.consumed > 0
            assert second.consumed > 0
        assert first.named("shutdown_complete")
        eventually(lambda: second.owned == {0, 1, 2, 3}, what=lambda: second.events)
        produce(broker, topic, 1000)
        eventually(lambda: first.consumed + second.consumed == 2000, what=lambda: second.events)
        eventually(lambda: sum(second.committed.values()) == 2000, what=lambda: second.events)


def test_partitions_of_a_killed_member_are_taken_over(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic, group = create_topic("java-killed", partitions=4), "java-killed"
    session = ["--session-timeout", "6000"]
    with (
        VerifiableConsumer(broker, topic, group, *session) as killed,
        VerifiableConsumer(broker, topic, group, *session) as survivor,
    ):
        eventually(lambda: settled(killed, survivor, partitions=4), what=lambda: (killed.events, survivor.events))
        killed.end(kill=True)
        eventually(lambda: survivor.owned == {0, 1, 2, 3}, what=lambda: survivor.events)


@pytest.mark.smoke
def test_static_member_comes_back_without_a_rebalance(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic, group = create_topic("java-static", partitions=4), "java-static"
    with VerifiableConsumer(broker, topic, group, "--group-instance-id", "stays") as stays:
        eventually(lambda: stays.owned == {0, 1, 2, 3}, what=lambda: stays.events)
        with VerifiableConsumer(broker, topic, group, "--group-instance-id", "restarts") as restarts:
            eventually(lambda: settled(stays, restarts, partitions=4), what=lambda: (stays.events, restarts.events))
            share = restarts.owned
        changes = len(stays.events)
        with VerifiableConsumer(broker, topic, group, "--group-instance-id", "restarts") as restarted:
            eventually(lambda: restarted.owned == share, what=lambda: (share, restarted.events))
        assert len(stays.events) == changes, stays.events[changes:]


def test_second_of_two_with_one_instance_id_fences_the_first(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic, group = create_topic("java-fenced", partitions=2), "java-fenced"
    instance = ["--group-instance-id", "one"]
    with VerifiableConsumer(broker, topic, group, *instance) as first:
        eventually(lambda: first.owned == {0, 1}, what=lambda: first.events)
        with VerifiableConsumer(broker, topic, group, *instance) as second:
            eventually(lambda: second.owned == {0, 1}, what=lambda: second.events)
            process = first.process
            assert process is not None
            process.wait(30)  # FencedInstanceIdException ends it
            assert second.owned == {0, 1}


@pytest.mark.smoke
def test_cooperative_members_keep_what_they_are_not_asked_to_give(
    broker: BrokerProcess, create_topic: CreateTopic
) -> None:
    topic, group = create_topic("java-cooperative", partitions=4), "java-cooperative"
    with VerifiableConsumer(broker, topic, group, *COOPERATIVE) as first:
        eventually(lambda: first.owned == {0, 1, 2, 3}, what=lambda: first.events)
        with VerifiableConsumer(broker, topic, group, *COOPERATIVE) as second:
            eventually(lambda: settled(first, second, partitions=4), what=lambda: (first.events, second.events))
            revoked = [len(event["partitions"]) for event in first.named("partitions_revoked")]
            assert sum(revoked) == 2, first.events
            produce(broker, topic, 400)
            eventually(lambda: first.consumed + second.consumed == 400, what=lambda: (first.events, second.events))
