"""Scenarios that need a broker of their own: with other settings, and one that is stopped or killed meanwhile."""

import uuid
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from ottla import Admin, NewTopic
from tests.processes import BrokerProcess
from tests.scenarios.clients import with_clients
from tests.scenarios.messages import all_kinds
from tests.scenarios.port import Client, Committed, Writing
from tests.scenarios.reading import fill, group_of, messages_of, places_of, take

pytestmark = pytest.mark.process

PARTITIONS = 4
with_each_end = pytest.mark.parametrize("end", [BrokerProcess.stop, BrokerProcess.kill], ids=["stopped", "killed"])


def make_topic(broker: BrokerProcess, partitions: int = 1) -> str:
    with Admin(bootstrap_servers=broker.address) as admin:
        admin.create_topics([NewTopic("kept", partitions, 1, (("segment.bytes", "50000"),))])
    return "kept"


@with_clients()
def test_topic_is_made_when_first_asked_for(shared_broker: BrokerProcess, client: Client) -> None:
    topic = f"asked-for-{uuid.uuid4().hex[:8]}"
    with closing(client.writer(shared_broker.address)) as writer:
        writer.send(topic, all_kinds(3))
    with closing(client.reader(shared_broker.address, topic)) as reader:
        assert messages_of(take(reader, 3)) == all_kinds(3)


@with_clients()
@with_each_end
def test_records_and_clients_outlive_a_restart(
    start_broker: Callable[..., BrokerProcess], client: Client, end: Callable[[BrokerProcess], Any]
) -> None:
    broker = start_broker()
    topic = make_topic(broker)
    sent = all_kinds(100)
    with (
        closing(client.writer(broker.address, Writing(is_idempotent=True))) as writer,
        closing(client.reader(broker.address, topic)) as reader,
    ):
        writer.send(topic, sent[:50])
        received = take(reader, 50)
        end(broker)
        broker.start()
        writer.send(topic, sent[50:])
        received += take(reader, 50)
    assert messages_of(received) == sent
    with closing(client.reader(broker.address, topic)) as reader:
        assert messages_of(take(reader, 100)) == sent
    assert "Traceback" not in broker.log


@with_clients()
@with_each_end
def test_member_goes_on_over_a_restart_of_the_broker(
    start_broker: Callable[..., BrokerProcess], group: str, client: Client, end: Callable[[BrokerProcess], Any]
) -> None:
    broker = start_broker("group.initial.rebalance.delay.ms=0")
    topic = make_topic(broker, PARTITIONS)
    fill(client, broker.address, topic, PARTITIONS)
    with group_of(broker.address, topic, group) as members:
        member = members.join(client)
        members.poll_until(lambda: len(members.records) >= 40)
        member.commit()
        end(broker)
        broker.start()
        fill(client, broker.address, topic, PARTITIONS, each=1)
        members.poll_until(lambda: len(members.records) >= 44)
        assert [member.committed(partition) for partition in range(PARTITIONS)] == [Committed(10)] * PARTITIONS
        assert places_of(members.records) == [
            (partition, offset) for partition in range(PARTITIONS) for offset in range(11)
        ]
        assert [each.is_assigned for each in member.told if each.partitions] == [True]  # its generation lives on
        member.commit()
        assert [member.committed(partition) for partition in range(PARTITIONS)] == [Committed(11)] * PARTITIONS
    assert "Traceback" not in broker.log
