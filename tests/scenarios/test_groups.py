"""Scenarios of groups whose members are all of one client: commits, sharing, handing over, coming back."""

from contextlib import closing
from typing import Any

import pytest

from tests.scenarios.clients import with_clients, with_each_assignor
from tests.scenarios.conftest import MakeTopic
from tests.scenarios.port import Client, Committed, Reading
from tests.scenarios.reading import fill, group_of, places_of, take

pytestmark = pytest.mark.process

PARTITIONS = 4


def every_place(until: int, start: int = 0) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in range(PARTITIONS) for offset in range(start, until)]


@with_clients()
def test_group_reads_everything_once_and_goes_on_where_it_committed(
    cluster: Any, make_topic: MakeTopic, group: str, client: Client
) -> None:
    topic = make_topic(PARTITIONS)
    fill(client, cluster.address, topic, PARTITIONS)
    with group_of(cluster.address, topic, group) as members:
        first = members.join(client)
        members.poll_until(lambda: len(members.records) >= 40)
        first.commit()
        assert [first.committed(partition) for partition in range(PARTITIONS)] == [Committed(10)] * PARTITIONS
        assert places_of(members.records) == every_place(10)
    fill(client, cluster.address, topic, PARTITIONS, each=1)
    with group_of(cluster.address, topic, group) as members:
        members.join(client)
        members.poll_until(lambda: len(members.records) >= 4)
        assert places_of(members.records) == every_place(11, start=10)


@with_clients()
def test_commit_keeps_its_text_and_a_restart_goes_on_from_it(
    cluster: Any, make_topic: MakeTopic, group: str, client: Client
) -> None:
    topic = make_topic(PARTITIONS)
    fill(client, cluster.address, topic, PARTITIONS)
    with closing(client.reader(cluster.address, topic, (1, 2), Reading(group=group))) as reader:
        assert reader.committed(1) is None
        reader.commit({1: Committed(4, "half way: Ærø"), 2: Committed(9)})
        assert [reader.committed(1), reader.committed(2)] == [Committed(4, "half way: Ærø"), Committed(9)]
    with closing(client.reader(cluster.address, topic, (1, 2), Reading(group=group))) as reader:
        expected = [(1, offset) for offset in range(4, 10)] + [(2, 9)]
        assert places_of(take(reader, 7)) == expected


@with_clients()
def test_two_groups_read_the_same_topic_each_on_its_own(
    cluster: Any, make_topic: MakeTopic, group: str, client: Client
) -> None:
    topic = make_topic(PARTITIONS)
    fill(client, cluster.address, topic, PARTITIONS, each=5)
    with group_of(cluster.address, topic, group) as ones, group_of(cluster.address, topic, f"{group}-2") as others:
        for members in (ones, others):
            members.join(client)
        ones.poll_until(lambda: len(ones.records) >= 20)
        others.poll_until(lambda: len(others.records) >= 20)
        assert places_of(ones.records) == places_of(others.records) == every_place(5)


@with_each_assignor(["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_partitions_are_shared_when_a_member_comes_and_taken_over_without_loss_when_it_goes(
    cluster: Any, make_topic: MakeTopic, group: str, client: Client, assignor: str
) -> None:
    topic = make_topic(PARTITIONS)
    with group_of(cluster.address, topic, group) as members:
        members.join(client, assignor=assignor)
        members.share(PARTITIONS)
        second = members.join(client, assignor=assignor)
        members.share(PARTITIONS)
        fill(client, cluster.address, topic, PARTITIONS)
        members.poll_until(lambda: len(members.records) >= 40)
        for member in members.members:
            member.commit()
        assert {record.partition for record in members.read[second]} == second.partitions
        members.leave(second)
        members.share(PARTITIONS)
        fill(client, cluster.address, topic, PARTITIONS, each=5)
        members.poll_until(lambda: len(members.records) >= 60)
        assert places_of(members.records) == every_place(15)


@with_clients(assignor="cooperative-sticky")
def test_cooperative_hand_over_takes_only_what_the_new_member_gets(
    cluster: Any, make_topic: MakeTopic, group: str, client: Client
) -> None:
    topic = make_topic(PARTITIONS)
    with group_of(cluster.address, topic, group) as members:
        first = members.join(client, assignor="cooperative-sticky")
        members.share(PARTITIONS)
        second = members.join(client, assignor="cooperative-sticky")
        members.share(PARTITIONS)
        told = [each for each in first.told if each.partitions]
        # What it kept was never taken from it.
        assert [each.is_assigned for each in told] == [True, False]
        assert told[1].partitions == second.partitions


@with_clients()
def test_static_member_that_is_restarted_gets_its_partitions_back_without_a_rebalance(
    cluster: Any, make_topic: MakeTopic, group: str, client: Client
) -> None:
    topic = make_topic(PARTITIONS)
    with group_of(cluster.address, topic, group) as members:
        staying = members.join(client, instance="staying")
        restarted = members.join(client, instance="restarted")
        members.share(PARTITIONS)
        owned = set(restarted.partitions)
        told = list(staying.told)
        members.leave(restarted)  # a static member only goes away
        again = members.join(client, instance="restarted")
        members.poll_until(lambda: again.partitions == owned)
        fill(client, cluster.address, topic, PARTITIONS)
        members.poll_until(lambda: len(members.records) >= 40)
        assert places_of(members.records) == every_place(10)
        assert staying.told == told


@with_clients()
def test_many_members_settle_with_each_partition_owned_once(
    cluster: Any, make_topic: MakeTopic, group: str, client: Client
) -> None:
    topic = make_topic(12)
    with group_of(cluster.address, topic, group) as members:
        for _ in range(6):
            members.join(client)
        members.share(12)
