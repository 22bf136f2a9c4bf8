"""Changes of configs: what is refused, what the store has afterwards, and who hears of it."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.controller.config_edits import ConfigChange, ConfigEdit, ConfigFault, ConfigOperation
from ottla.controller.config_notes import NOTES_KEPT_MS, ConfigNotes
from ottla.controller.configs import Configs
from ottla.controller.new_topics import NewTopic
from ottla.controller.queue import EventQueue
from ottla.controller.state import ClusterState, StoredBrokerConfigs
from ottla.controller.topics import Topics
from ottla.coordination import paths
from ottla.core.config.config import BrokerConfig, ConfigSource
from ottla.core.config.current import CurrentConfig
from ottla.core.errors import ErrorCode
from tests.controller.faulty_stores import ForgetfulStore
from tests.controller.pumped_store import NotingApplier, PumpedStore

DELETE = ConfigOperation.DELETE
TOPIC_NODE = paths.config_path("topics", "orders")
OWN_NODE = paths.config_path("brokers", "1")
DEFAULT_NODE = paths.config_path("brokers", paths.DEFAULT_ENTITY)


class Desk:
    """The controller's side of configs on a real store, with one topic `orders`."""

    def __init__(self, directory: Path, properties: dict[str, str] | None = None) -> None:
        self.pump = PumpedStore(directory)
        self.now_ms = self.pump_now_ms()
        self.broker = BrokerConfig.parse(properties or {})
        self.state = ClusterState([], StoredBrokerConfigs({}, {}))
        self.use(self.pump.store)
        self.pump.call(self.topics.create, NewTopic("orders", partitions=1, configs={"segment.ms": "1000"}))

    def pump_now_ms(self) -> int:
        stat = self.pump.get(paths.CONFIG).stat
        assert stat is not None
        return stat.ctime_ms

    def use(self, store: Any) -> None:
        """The controller goes on with another connection to the store."""
        self.applier = NotingApplier()
        self.current = CurrentConfig(self.broker)
        self.heard: list[BrokerConfig] = []
        self.current.add_listener(self.heard.append)
        self.notes_kept = ConfigNotes(store, lambda: self.now_ms)
        queue = EventQueue(
            store,
            self.state,
            self.applier,
            self.current,
            random_bytes=Random(1).randbytes,
            live_brokers=lambda: [1],
            controller_epoch=lambda: 1,
        )
        self.topics = Topics(queue)
        self.configs = Configs(lambda _: queue, self.notes_kept, broker_id=1)

    def alter(self, *edits: ConfigEdit, name: str = "orders", **options: Any) -> ConfigFault | None:
        change = ConfigChange(edits, options.pop("is_replacement", False))
        fault: ConfigFault | None = self.pump.call(self.configs.alter_topic, name, change, **options)
        return fault

    def alter_broker(self, *edits: ConfigEdit, name: str = "1", **options: Any) -> ConfigFault | None:
        change = ConfigChange(edits, options.pop("is_replacement", False))
        fault: ConfigFault | None = self.pump.call(self.configs.alter_broker, name, change, **options)
        return fault

    def entries(self, path: str = TOPIC_NODE) -> dict[str, str]:
        return paths.decode_config(path, self.pump.get(path).value)

    def notes(self) -> list[str]:
        values = self.pump.tree(paths.CONFIG_CHANGES).items()
        return [paths.decode_config_change(path, value) for path, value in values]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.pump.close()


def refused(fault: ConfigFault | None, error_code: ErrorCode, *words: str) -> None:
    assert fault is not None
    assert fault.error_code == error_code
    for word in words:
        assert word in fault.message


# Topics


def test_a_change_is_in_the_store_with_its_note_and_then_applied(desk: Desk) -> None:
    assert desk.alter(ConfigEdit("retention.ms", "5000")) is None
    expected = {"segment.ms": "1000", "retention.ms": "5000"}
    assert desk.entries() == expected
    assert desk.notes() == ["topics/orders"]
    assert desk.applier.configs == [expected]
    assert desk.state.topics["orders"].configs == expected


def test_a_replacement_leaves_only_what_it_names(desk: Desk) -> None:
    assert desk.alter(ConfigEdit("retention.ms", "5000"), is_replacement=True) is None
    assert desk.entries() == {"retention.ms": "5000"}


def test_nothing_is_written_when_only_validated_refused_or_the_same(desk: Desk) -> None:
    assert desk.alter(ConfigEdit("retention.ms", "5000"), validate_only=True) is None
    refused(desk.alter(ConfigEdit("retention.ms", "abc"), validate_only=True), ErrorCode.INVALID_CONFIG, "abc")
    refused(
        desk.alter(ConfigEdit("retention.ms", "-2")),
        ErrorCode.INVALID_CONFIG,
        "Invalid value -2 for configuration retention.ms",
        "at least -1",
    )
    assert desk.alter(ConfigEdit("segment.ms", "1000")) is None
    assert desk.entries() == {"segment.ms": "1000"}
    assert desk.notes() == []


def test_a_key_that_is_not_served_is_refused_with_the_reason(desk: Desk) -> None:
    refused(desk.alter(ConfigEdit("preallocate", "true")), ErrorCode.INVALID_CONFIG, "known to Kafka", "files grow")
    refused(desk.alter(ConfigEdit("retention.mz", "1")), ErrorCode.INVALID_CONFIG, "retention.mz", "retention.ms")


def test_one_wrong_key_refuses_all_of_a_resource(desk: Desk) -> None:
    refused(
        desk.alter(ConfigEdit("retention.ms", "5"), ConfigEdit("segment.bytes", "1")),
        ErrorCode.INVALID_CONFIG,
        "Invalid value 1 for configuration segment.bytes",
    )
    assert desk.entries() == {"segment.ms": "1000"}


def test_topics_that_are_not_there_are_refused(desk: Desk) -> None:
    edit = ConfigEdit("retention.ms", "5")
    refused(desk.alter(edit, name="nobody"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "nobody")
    refused(desk.alter(edit, name="a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "a b")
    refused(desk.alter(edit, name=""), ErrorCode.INVALID_TOPIC_EXCEPTION)


def test_two_changes_at_a_time_are_both_kept(desk: Desk) -> None:
    done: list[ConfigFault | None] = []
    for edit in (
        ConfigEdit("retention.ms", "5000"),
        ConfigEdit("max.message.bytes", "99"),
        ConfigEdit("flush.ms", "9"),
    ):
        desk.configs.alter_topic("orders", ConfigChange([edit]), done.append)
    desk.pump.run_until(lambda: len(done) == 3)
    expected = {"segment.ms": "1000", "retention.ms": "5000", "max.message.bytes": "99", "flush.ms": "9"}
    assert done == [None] * 3
    assert desk.entries() == expected
    assert desk.state.topics["orders"].configs == expected
    assert len(desk.notes()) == 3


def test_an_entry_that_cannot_be_used_stands_in_nobodys_way_but_its_own(desk: Desk) -> None:
    desk.pump.put(TOPIC_NODE, paths.encode_config({"retention.ms": "soon", "gone.key": "1"}))
    assert desk.alter(ConfigEdit("segment.ms", "7")) is None
    refused(
        desk.alter(ConfigEdit("retention.ms", "soon")),
        ErrorCode.INVALID_CONFIG,
        "Invalid value soon for configuration retention.ms",
    )
    assert desk.alter(ConfigEdit("gone.key", None, DELETE), ConfigEdit("retention.ms", "8")) is None
    assert desk.entries() == {"segment.ms": "7", "retention.ms": "8"}


def test_a_node_that_is_missing_is_made(desk: Desk) -> None:
    desk.pump.call(desk.pump.store.delete, TOPIC_NODE, version=-1)
    assert desk.alter(ConfigEdit("retention.ms", "5")) is None
    assert desk.entries() == {"retention.ms": "5"}


def test_a_topic_that_goes_meanwhile_does_not_come_back(desk: Desk) -> None:
    done: list[Any] = []
    desk.topics.delete("orders", done.append)
    refused(desk.alter(ConfigEdit("retention.ms", "5")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    desk.pump.run_until(lambda: bool(done))
    assert not desk.pump.get(TOPIC_NODE).is_ok


def test_a_topic_deleted_between_decision_and_write_is_gone(desk: Desk) -> None:
    done: list[ConfigFault | None] = []
    gone: list[Any] = []
    desk.configs.alter_topic("orders", ConfigChange([ConfigEdit("retention.ms", "5")]), done.append)
    for path in (*(f"{paths.topic_path('orders')}{part}" for part in ("/partitions/0/state", "/partitions/0")),):
        desk.pump.store.delete(path, gone.append, version=-1)
    desk.pump.store.delete(paths.topic_partitions_path("orders"), gone.append, version=-1)
    desk.pump.store.delete(paths.topic_path("orders"), gone.append, version=-1)
    desk.pump.run_until(lambda: bool(done))
    refused(done[0], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "orders")
    assert desk.applier.configs == []


def test_a_lost_answer_is_settled_by_looking(desk: Desk) -> None:
    desk.use(ForgetfulStore(desk.pump.store, is_applied=True))
    assert desk.alter(ConfigEdit("retention.ms", "5")) is None
    assert desk.state.topics["orders"].configs == {"segment.ms": "1000", "retention.ms": "5"}
    desk.use(ForgetfulStore(desk.pump.store, is_applied=False))
    refused(desk.alter(ConfigEdit("retention.ms", "6")), ErrorCode.UNKNOWN_SERVER_ERROR, "CONNECTION_LOST", "cable cut")
    assert desk.state.topics["orders"].configs == {"segment.ms": "1000", "retention.ms": "5"}


def test_a_malformed_node_is_named(desk: Desk) -> None:
    desk.pump.put(TOPIC_NODE, b"not json")
    refused(desk.alter(ConfigEdit("retention.ms", "5")), ErrorCode.UNKNOWN_SERVER_ERROR, TOPIC_NODE)


# Notes for other brokers


def test_old_notes_are_removed_with_the_next_change(desk: Desk) -> None:
    desk.alter(ConfigEdit("retention.ms", "5"))
    desk.now_ms += NOTES_KEPT_MS
    desk.alter(ConfigEdit("retention.ms", "6"))
    assert len(desk.notes()) == 2
    desk.now_ms += 1
    desk.alter(ConfigEdit("retention.ms", "7"))
    assert len(desk.notes()) == 2


def test_notes_of_earlier_runs_are_removed_when_they_are_old(desk: Desk) -> None:
    desk.alter(ConfigEdit("retention.ms", "5"))
    desk.alter(ConfigEdit("retention.ms", "6"))
    desk.use(desk.pump.store)
    desk.notes_kept.load()
    desk.pump.get("/")
    desk.pump.get("/")  # by now the answers to its questions are here, in their order
    assert len(desk.notes()) == 2
    desk.use(desk.pump.store)
    desk.now_ms = desk.pump_now_ms() + 2 * NOTES_KEPT_MS
    desk.notes_kept.load()
    desk.pump.get("/")
    desk.pump.get("/")
    assert desk.notes() == []


# Brokers


def test_a_brokers_change_is_stored_and_told_to_listeners(desk: Desk) -> None:
    assert desk.alter_broker(ConfigEdit("log.retention.ms", "5000")) is None
    assert desk.entries(OWN_NODE) == {"log.retention.ms": "5000"}
    assert desk.notes() == ["brokers/1"]
    assert [config.get_int("log.retention.ms") for config in desk.heard] == [5000]
    assert desk.current.value.entry("log.retention.ms").source is ConfigSource.DYNAMIC_BROKER


def test_the_brokers_own_value_wins_over_that_of_all_brokers_and_the_file(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"max.connections": "7"})
    key = "max.connections"
    assert desk.alter_broker(ConfigEdit(key, "50"), name="") is None
    assert desk.entries(DEFAULT_NODE) == {key: "50"}
    assert desk.notes() == ["brokers/<default>"]
    assert desk.current.value.get_int(key) == 50
    assert desk.alter_broker(ConfigEdit(key, "60")) is None
    assert [(origin.value, origin.source) for origin in desk.current.value.origins(key)] == [
        ("60", ConfigSource.DYNAMIC_BROKER),
        ("50", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("7", ConfigSource.STATIC_BROKER),
        ("2147483647", ConfigSource.DEFAULT),
    ]
    assert desk.alter_broker(ConfigEdit(key, None, DELETE)) is None
    assert desk.current.value.get_int(key) == 50
    assert desk.alter_broker(name="", is_replacement=True) is None
    assert desk.current.value.get_int(key) == 7
    desk.pump.close()


@pytest.mark.parametrize("name", ["1", ""])
def test_a_broker_key_that_cannot_change_is_refused(desk: Desk, name: str) -> None:
    refused(
        desk.alter_broker(ConfigEdit("log.dirs", "/other"), name=name),
        ErrorCode.INVALID_REQUEST,
        "log.dirs can't be changed while brokers run",
    )
    refused(
        desk.alter_broker(ConfigEdit("num.io.threads", "3"), name=name), ErrorCode.INVALID_REQUEST, "one event loop"
    )
    refused(desk.alter_broker(ConfigEdit("never.heard", "3"), name=name), ErrorCode.INVALID_REQUEST, "never.heard")
    refused(desk.alter_broker(ConfigEdit("max.connections", "-1"), name=name), ErrorCode.INVALID_REQUEST, "at least 0")
    assert desk.heard == []


def test_rules_between_keys_hold_for_changes_too(desk: Desk) -> None:
    refused(desk.alter_broker(ConfigEdit("log.retention.ms", "0")), ErrorCode.INVALID_REQUEST, "log.retention.ms=0")
    nobody = ConfigEdit("max.connections.per.ip", "0")
    refused(desk.alter_broker(nobody), ErrorCode.INVALID_REQUEST, "nobody could connect")
    overrides = ConfigEdit("max.connections.per.ip.overrides", "127.0.0.1:5", ConfigOperation.APPEND)
    assert desk.alter_broker(nobody, overrides) is None
    assert desk.current.value.connection_limit_by_address() == {"127.0.0.1": 5}


def test_other_brokers_are_refused(desk: Desk) -> None:
    edit = ConfigEdit("max.connections", "5")
    refused(desk.alter_broker(edit, name="2"), ErrorCode.INVALID_REQUEST, "expected 1 or empty string")
    refused(desk.alter_broker(edit, name="x"), ErrorCode.INVALID_REQUEST, "expected 1 or empty string")


def test_a_brokers_change_can_be_only_validated(desk: Desk) -> None:
    assert desk.alter_broker(ConfigEdit("max.connections", "5"), validate_only=True) is None
    refused(desk.alter_broker(ConfigEdit("max.connections", "x"), validate_only=True), ErrorCode.INVALID_REQUEST)
    assert not desk.pump.get(OWN_NODE).is_ok
    assert desk.heard == []
