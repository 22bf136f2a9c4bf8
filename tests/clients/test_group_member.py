"""A member of a group on a real broker: alone, beside another, and after it left."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ottla.clients.cluster import Cluster
from ottla.clients.group_member import GroupMember, Stopped
from ottla.clients.topics import NewTopic, create_topics, wait_for_leaders
from ottla.core.types import TopicPartition
from tests.processes import BrokerProcess, eventually

pytestmark = pytest.mark.process


def rejoined(member: GroupMember) -> list[TopicPartition]:
    """Tend until the group is rebalanced, then be part of its next generation."""

    def is_told() -> bool:
        member.tend()
        return member.must_rejoin

    eventually(is_told)
    return member.join()


def test_two_members_share_partitions_and_hand_them_over(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", "group.initial.rebalance.delay.ms=0").start()
    try:
        with (
            Cluster(broker.address) as cluster,
            Cluster(broker.address) as other_cluster,
            ThreadPoolExecutor(1) as pool,
        ):
            create_topics(cluster, [NewTopic("shared", 4)])
            wait_for_leaders(cluster, ["shared"])
            places = [TopicPartition("shared", partition) for partition in range(4)]
            first = GroupMember(cluster, "g", ["shared"], heartbeat_interval_ms=20)
            assert sorted(first.join()) == places
            assert first.committed(places) == {}
            assert first.commit({places[0]: 5, places[3]: 7})

            second = GroupMember(other_cluster, "g", ["shared"], heartbeat_interval_ms=20)
            joining = pool.submit(second.join)
            owned = rejoined(first)
            assert sorted(owned + joining.result(30)) == places
            assert len(owned) == 2

            first.leave()
            assert sorted(rejoined(second)) == places
            assert second.committed(places) == {places[0]: 5, places[3]: 7}
            second.leave()
            assert not second.commit({places[0]: 9})
    finally:
        broker.close()


def test_a_join_that_waits_for_others_can_be_stopped(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", "group.initial.rebalance.delay.ms=60000").start()
    try:
        with Cluster(broker.address) as cluster:
            create_topics(cluster, [NewTopic("shared", 1)])
            member = GroupMember(cluster, "g", ["shared"], should_stop=lambda: True)
            with pytest.raises(Stopped):
                member.join()
            member.leave()
    finally:
        broker.close()
