"""One group, members of several clients, whoever leads: same names of assignors, user data that all can read."""

from contextlib import closing
from typing import Any

import pytest

from tests.scenarios.clients_aiokafka import AIOKAFKA
from tests.scenarios.clients_confluent import CONFLUENT
from tests.scenarios.clients_kafka_python import KAFKA_PYTHON
from tests.scenarios.clients_ottla import OTTLA, OTTLA_AIO
from tests.scenarios.conftest import MakeTopic
from tests.scenarios.messages import numbered
from tests.scenarios.port import Client
from tests.scenarios.reading import group_of, places_of

pytestmark = pytest.mark.process

PARTITIONS = 6
EACH = 20


MIXTURES: list[tuple[str, tuple[Client, ...]]] = [
    ("range", (OTTLA, CONFLUENT, AIOKAFKA)),
    ("range", (CONFLUENT, AIOKAFKA, OTTLA)),
    ("range", (KAFKA_PYTHON, OTTLA_AIO)),
    ("roundrobin", (OTTLA, AIOKAFKA, CONFLUENT)),
    ("roundrobin", (AIOKAFKA, OTTLA, CONFLUENT)),
    ("sticky", (OTTLA, AIOKAFKA)),
    ("sticky", (AIOKAFKA, OTTLA)),
    ("sticky", (KAFKA_PYTHON, OTTLA, AIOKAFKA)),
    ("cooperative-sticky", (OTTLA, CONFLUENT)),
    ("cooperative-sticky", (CONFLUENT, OTTLA, OTTLA_AIO)),
    ("cooperative-sticky", (OTTLA, KAFKA_PYTHON)),
]


@pytest.mark.parametrize(
    ("assignor", "clients"),
    [
        pytest.param(assignor, clients, id="-".join([assignor, *(client.name for client in clients)]))
        for assignor, clients in MIXTURES
    ],
)
def test_members_of_several_clients_share_a_topic(
    cluster: Any, make_topic: MakeTopic, group: str, assignor: str, clients: tuple[Client, ...]
) -> None:
    topic = make_topic(PARTITIONS)
    every = [(partition, offset) for partition in range(PARTITIONS) for offset in range(2 * EACH)]
    with group_of(cluster.address, topic, group) as members, closing(OTTLA.writer(cluster.address)) as writer:
        for client in clients:  # the first leads, and goes on to lead when others come
            members.join(client, assignor=assignor, commits_itself=True)
            members.share(PARTITIONS)
        for partition in range(PARTITIONS):
            writer.send(topic, numbered(EACH), partition=partition)
        members.poll_until(lambda: len(members.records) >= len(every) // 2)
        members.leave(members.members[0])
        members.share(PARTITIONS)
        for partition in range(PARTITIONS):
            writer.send(topic, numbered(EACH, start=EACH), partition=partition)
        members.poll_until(lambda: len(members.records) >= len(every))
        assert places_of(members.records) == every
