"""Topics that are deleted and made again while answers of the store are lost or late."""

from collections.abc import Sequence

import pytest

from ottla.controller.new_topics import NewTopic
from ottla.controller.topic_faults import TopicFault
from ottla.coordination import paths
from ottla.coordination.store import Code, Create, Delete, OnDone, Result, WatchEvent, WatchKind, Write
from ottla.core.cluster import TopicImage
from tests.controller.answering_cluster import Cluster

ORDERS = paths.topic_path("orders")


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.settle()
    created: list[TopicImage | TopicFault] = []
    cluster.controller.topics.create(NewTopic("orders", partitions=1, replication_factor=2), created.append)
    cluster.loop.run_until(lambda: bool(created))
    return cluster


def lose_last_write_of_deletion(cluster: Cluster, *, is_applied: bool) -> None:
    """The connection breaks with the write that removes the topic's own node, before or after it was carried out."""
    store = cluster.stores[cluster.active[0]]
    multi = store.multi

    def lose(writes: Sequence[Write], on_done: OnDone) -> None:
        if Delete(ORDERS, -1) not in writes:
            multi(writes, on_done)
            return
        del store.multi  # type: ignore[method-assign]
        lost = Result(Code.CONNECTION_LOST, "", detail="cable cut")
        if is_applied:
            multi(writes, lambda _: on_done(lost))
        else:
            cluster.loop.call_soon(lambda: on_done(lost))

    store.multi = lose  # type: ignore[method-assign]


def recreate_at_once(cluster: Cluster) -> None:
    """Another broker writes the topic again as soon as its node is gone, before anybody else has heard of that."""
    writes = [
        Create(paths.config_path("topics", "orders"), paths.encode_config({})),
        Create(ORDERS, paths.encode_topic(paths.TopicAssignment(b"another topic id", {0: (2, 3)}))),
    ]

    def on_change(change: WatchEvent, _: bytes) -> None:
        if change.path == ORDERS and change.kind == WatchKind.DELETED:
            cluster.ensemble.on_change = None
            cluster.admin.multi(writes, lambda _: None)

    cluster.ensemble.on_change = on_change


def delete(cluster: Cluster) -> list[TopicFault | None]:
    deleted: list[TopicFault | None] = []
    cluster.controller.topics.delete("orders", deleted.append)
    cluster.settle()
    return deleted


@pytest.mark.parametrize("is_applied", [False, True])
def test_deletion_is_finished_though_the_answer_to_its_last_write_was_lost(cluster: Cluster, is_applied: bool) -> None:
    lose_last_write_of_deletion(cluster, is_applied=is_applied)
    assert delete(cluster) == [None]
    assert cluster.topics() == ()
    assert "orders" not in cluster.controller.topics.state.topics


@pytest.mark.parametrize("is_lost", [False, True])
def test_topic_that_is_made_again_at_once_is_led(cluster: Cluster, is_lost: bool) -> None:
    if is_lost:
        lose_last_write_of_deletion(cluster, is_applied=True)
    recreate_at_once(cluster)
    assert delete(cluster) == [None]
    assert cluster.topics() == ("orders",)
    assert cluster.controller.topics.state.topics["orders"].topic_id == b"another topic id"
    assert cluster.state_of("orders").leader == 2
    assert "orders" in cluster.brokers[2].shown
