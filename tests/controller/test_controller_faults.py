"""Random deaths, lost answers and ended sessions: when all is quiet again, store, controller and brokers agree."""

from random import Random

import pytest

from ottla.controller.added_partitions import NewPartitions
from ottla.controller.new_topics import NewTopic
from ottla.controller.partition_decisions import Strategy
from ottla.coordination import paths
from ottla.coordination.store import WatchEvent, WatchKind
from ottla.core.cluster import NO_LEADER
from ottla.core.control import ControlledShutdown
from ottla.core.types import TopicPartition
from tests.controller.answering_cluster import Cluster

pytestmark = pytest.mark.slow

SEEDS = range(60)
BROKERS = 4


class Run:
    """One seed: things happen, then all brokers come back and are left alone."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = Cluster(BROKERS, seed=seed)
        self.leaders: dict[tuple[str, int], tuple[int, int]] = {}  # path, leader epoch: leader, controller epoch
        self.controllers: dict[int, int] = {}  # by epoch
        self.cluster.ensemble.on_change = self._on_change
        self._names = 0
        self._shut_down: list[int] = []

    def _on_change(self, change: WatchEvent, value: bytes) -> None:
        """One leader in each epoch, and no older controller after a younger one."""
        if change.path.endswith("/state") and change.kind != WatchKind.DELETED:
            node = paths.decode_partition_state(change.path, value)
            topic_id = self.cluster.ensemble.tree.get(change.path.rpartition("/partitions/")[0]).value[:60]
            leader, _ = self.leaders.setdefault(
                (f"{topic_id!r}{change.path}", node.leader_epoch), (node.leader, node.controller_epoch)
            )
            assert leader == node.leader, f"{change.path}: two leaders in epoch {node.leader_epoch}"
            assert node.leader == NO_LEADER or node.leader in node.isr

    def go(self) -> None:
        actions = (
            self.kill,
            self.kill,
            self.start,
            self.start,
            self.bounce,
            self.expire,
            self.lose_answers,
            self.stall,
            self.create,
            self.create,
            self.write_topic,
            self.grow,
            self.delete,
            self.shrink_isr,
            self.elect_preferred,
            self.shut_down,
        )
        for _ in range(40):
            self.random.choice(actions)()
            self.cluster.settle(self.random.choice((0.0, 0.001, 0.004, 0.01, 0.3, 2.0)))
        for broker_id in range(1, BROKERS + 1):
            self.cluster.ensemble.restore(f"broker-{broker_id}")
        for broker_id in self._shut_down:
            if broker_id in self.cluster.stores:
                self.cluster.kill(broker_id)
        for broker_id in range(1, BROKERS + 1):
            if broker_id not in self.cluster.stores:
                self.cluster.start(broker_id)
        self.cluster.settle(40)

    def check(self) -> None:
        cluster = self.cluster
        (active,) = cluster.active
        state = cluster.controllers[active].topics.state
        assert tuple(sorted(state.topics)) == cluster.topics()
        assert not state.being_deleted
        assert cluster.call(cluster.admin.children, paths.DELETE_TOPICS).children == ()
        assert cluster.call(cluster.admin.children, paths.ISR_CHANGE_NOTIFICATION).children == ()
        hosted: set[tuple[int, TopicPartition]] = set()
        for name, image in state.topics.items():
            for partition, known in image.partitions.items():
                found = TopicPartition(name, partition)
                assert known == cluster.state_of(name, partition), f"{found}: the controller knows something else"
                assert known.leader in known.isr, f"{found}: all brokers are there, and nobody leads it"
                for broker_id, broker in cluster.brokers.items():
                    assert broker.shown[name].partitions[partition] == known, f"{found} as broker {broker_id} shows it"
                for broker_id in known.replicas:
                    hosted.add((broker_id, found))
                    there = cluster.brokers[broker_id].states[found]
                    assert there[:2] == known[:2], f"{found} on broker {broker_id}"
        for broker_id, broker in cluster.brokers.items():
            assert set(broker.shown) == set(state.topics)
            assert len(broker.brokers) == BROKERS
            assert {found for holder, found in hosted if holder == broker_id} == broker.logs

    def _some_live(self) -> int | None:
        live = sorted(self.cluster.stores)
        return self.random.choice(live) if live else None

    def kill(self) -> None:
        broker_id = self._some_live()
        if broker_id is not None:
            self.cluster.kill(broker_id)

    def start(self) -> None:
        dead = [broker_id for broker_id in range(1, BROKERS + 1) if broker_id not in self.cluster.stores]
        if dead:
            self.cluster.start(self.random.choice(dead))

    def bounce(self) -> None:
        broker_id = self._some_live()
        if broker_id is not None:
            self.cluster.bounce(broker_id)

    def expire(self) -> None:
        broker_id = self._some_live()
        if broker_id is not None:
            self.cluster.ensemble.expire(self.cluster.stores[broker_id].session_id)

    def lose_answers(self) -> None:
        broker_id = self._some_live()
        self.cluster.ensemble.lose_answers(self.random.randrange(1, 4), client=f"broker-{broker_id}")

    def stall(self) -> None:
        broker_id = self._some_live()
        self.cluster.ensemble.stall(f"broker-{broker_id}")
        self.cluster.settle(self.random.choice((0.5, 7.0)))
        self.cluster.ensemble.restore(f"broker-{broker_id}")

    def _assignment(self) -> dict[int, tuple[int, ...]]:
        count = self.random.randrange(1, BROKERS)
        brokers = range(1, BROKERS + 1)
        return {
            partition: tuple(self.random.sample(brokers, count)) for partition in range(self.random.randrange(1, 5))
        }

    def create(self) -> None:
        for controller in self.cluster.controllers.values():
            if controller.is_active:
                self._names += 1
                controller.topics.create(NewTopic(f"topic-{self._names % 6}", 3, 2), lambda _: None)

    def write_topic(self) -> None:
        self._names += 1
        self.cluster.write_topic(f"written-{self._names}", self._assignment())

    def _some_topic(self) -> str | None:
        topics = self.cluster.topics()
        return self.random.choice(topics) if topics else None

    def grow(self) -> None:
        name = self._some_topic()
        for controller in self.cluster.controllers.values():
            if name is not None and controller.is_active:
                controller.topics.add_partitions(NewPartitions(name, 6), lambda _: None)

    def delete(self) -> None:
        name = self._some_topic()
        for controller in self.cluster.controllers.values():
            if name is not None and controller.is_active:
                controller.topics.delete(name, lambda _: None)

    def shrink_isr(self) -> None:
        """As a leader does, unless somebody else was faster."""
        name = self._some_topic()
        if name is None:
            return
        path = paths.partition_state_path(name, 0)
        found = self.cluster.get(path)
        if found.stat is None:
            return
        node = paths.decode_partition_state(path, found.value)
        if node.leader != NO_LEADER:
            value = paths.encode_partition_state(node._replace(isr=(node.leader,)))
            self.cluster.call(self.cluster.admin.set, path, value, version=found.stat.version)
            note = paths.encode_partition_set([TopicPartition(name, 0)])
            self.cluster.call(self.cluster.admin.create, paths.ISR_CHANGE_PREFIX, note, sequential=True)

    def elect_preferred(self) -> None:
        for controller in self.cluster.controllers.values():
            controller.elect_leaders(Strategy.PREFERRED, None, lambda _: None)

    def shut_down(self) -> None:
        broker_id = self._some_live()
        for controller in self.cluster.controllers.values():
            if broker_id is not None and controller.is_active:
                self._shut_down.append(broker_id)
                epoch = self.cluster.brokers[broker_id].epoch
                controller.controlled_shutdown(ControlledShutdown(broker_id, epoch), lambda _: None)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_agree_when_it_is_quiet_again(seed: int) -> None:
    run = Run(seed)
    run.go()
    run.check()
