"""Configs that another broker changed reach this one by their notes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.broker.config_watch import ConfigWatch
from ottla.controller.state import StoredBrokerConfigs
from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION
from tests.broker.lossy_store import LossyStore
from tests.controller.pumped_store import PumpedStore
from tests.storage.hand_driven import HandLoop


class Watching:
    """Broker 1 on a store that somebody else writes to."""

    def __init__(self, directory: Path) -> None:
        self.loop = HandLoop()
        self.pump = PumpedStore(directory)
        self.store = LossyStore(self.pump.store)
        self.topics: list[tuple[str, dict[str, str]]] = []
        self.broker: list[StoredBrokerConfigs] = []
        self.watch = ConfigWatch(
            self.store,
            1,
            on_topic=lambda name, configs: self.topics.append((name, configs)),
            on_broker=self.broker.append,
            call_later=self._call_later,
        )

    def _call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self.loop.call_at(self.loop.now + delay_ms / 1000, callback)

    def begin(self) -> None:
        done: list[int] = []
        self.watch.begin(lambda: done.append(1))
        self.pump.run_until(lambda: bool(done))

    def change(self, entity_type: str, name: str, **configs: str) -> None:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        self.pump.put(paths.config_path(entity_type, name), paths.encode_config(named))
        self.note(f"{entity_type}/{name}")

    def note(self, entity_path: str) -> None:
        value = paths.encode_config_change(entity_path)
        assert self.pump.call(self.pump.store.create, paths.CONFIG_CHANGE_PREFIX, value, sequential=True).is_ok
        self.settle()

    def settle(self) -> None:
        for _ in range(8):
            self.pump.get("/")


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Watching]:
    made = Watching(tmp_path)
    yield made
    made.pump.close()


def test_changes_before_the_start_are_left_to_it_and_later_ones_are_read(watching: Watching) -> None:
    watching.change("topics", "orders", segment_bytes="1000")
    watching.begin()
    watching.change("topics", "orders", segment_bytes="2000")  # while the broker starts
    assert watching.topics == []
    watching.watch.go_on()
    watching.settle()
    assert watching.topics == [("orders", {"segment.bytes": "2000"})]
    watching.change("topics", "orders")
    watching.change("topics", "bills", retention_ms="5")
    assert watching.topics[1:] == [("orders", {}), ("bills", {"retention.ms": "5"})]


def test_configs_of_this_broker_and_of_all_come_together(watching: Watching) -> None:
    watching.begin()
    watching.watch.go_on()
    watching.change("brokers", "1", log_retention_ms="7")
    watching.change("brokers", paths.DEFAULT_ENTITY, message_max_bytes="9")
    watching.change("brokers", "2", log_retention_ms="8")
    assert watching.broker == [
        StoredBrokerConfigs({"log.retention.ms": "7"}, {}),
        StoredBrokerConfigs({"log.retention.ms": "7"}, {"message.max.bytes": "9"}),
    ]


def test_new_session_finds_what_was_changed_meanwhile(watching: Watching) -> None:
    watching.begin()
    watching.watch.go_on()
    watching.settle()
    watching.pump.store.expire_session()
    watching.settle()
    watching.change("topics", "orders", retention_ms="5")
    watching.settle()
    assert watching.topics[-1] == ("orders", {"retention.ms": "5"})


def test_store_that_does_not_answer_is_asked_again(watching: Watching) -> None:
    watching.begin()
    watching.watch.go_on()
    watching.settle()
    watching.store.loses_gets = True
    watching.change("topics", "orders", retention_ms="5")
    watching.change("brokers", "1", log_retention_ms="7")
    assert not watching.topics
    watching.store.loses_gets = False
    watching.loop.run_for(1000)
    watching.settle()
    assert watching.topics == [("orders", {"retention.ms": "5"})]
    assert watching.broker == [StoredBrokerConfigs({"log.retention.ms": "7"}, {})]


def test_nodes_that_make_no_sense_change_nothing(watching: Watching) -> None:
    watching.begin()
    watching.watch.go_on()
    watching.pump.put(paths.config_path("topics", "orders"), b"{")
    watching.note("topics/orders")
    watching.pump.call(watching.pump.store.create, paths.CONFIG_CHANGE_PREFIX, b"?", sequential=True)
    watching.note("users/alice")
    assert not watching.topics
    assert not watching.broker


def test_notes_that_are_removed_are_no_changes(watching: Watching) -> None:
    watching.begin()
    watching.watch.go_on()
    watching.change("topics", "orders")
    (name,) = watching.pump.call(watching.pump.store.children, paths.CONFIG_CHANGES).children
    watching.pump.call(watching.pump.store.delete, f"{paths.CONFIG_CHANGES}/{name}", version=ANY_VERSION)
    watching.settle()
    assert len(watching.topics) == 1
    watching.watch.stop()
    watching.change("topics", "orders", retention_ms="5")
    assert len(watching.topics) == 1
