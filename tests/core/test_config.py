"""The config of a broker and its topics: what is in force, where it comes from, what is refused."""

import pytest

from ottla.core.config.broker_keys import BROKER_DEFINITION
from ottla.core.config.config import BrokerConfig, ConfigSource, Origin, TopicConfig
from ottla.core.config.definition import ConfigError
from ottla.core.config.listeners import Listener
from ottla.core.config.topic_keys import TOPIC_DEFINITION

HOUR_MS = 3_600_000


def problems_of(**properties: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.parse({name.replace("_", "."): text for name, text in properties.items()})
    return caught.value.problems


def test_an_empty_config_is_good_and_has_kafkas_defaults() -> None:
    config = BrokerConfig.parse({})
    assert config.get_int("log.segment.bytes") == 1 << 30
    assert config.get_int("log.retention.ms") == 168 * HOUR_MS
    assert config.get_int("log.roll.ms") == 168 * HOUR_MS
    assert config.get_int("log.roll.jitter.ms") == 0
    assert config.get_int("log.flush.interval.ms") == (1 << 63) - 1
    assert config.get_int("message.max.bytes") == 1048588
    assert config.get_bool("auto.create.topics.enable") is True
    assert config.get_str("compression.type") == "producer"
    assert config.get_list("log.cleanup.policy") == ("delete",)
    assert config.get_optional_str("broker.rack") is None
    assert config.listeners() == [Listener("PLAINTEXT", "", 9092)]
    assert config.advertised_listeners() == config.listeners()
    assert config.inter_broker_listener_name() == "PLAINTEXT"


def test_every_key_has_a_value_or_is_optional() -> None:
    broker = BrokerConfig.parse({})
    topic = TopicConfig.parse({}, broker)
    optional = {name for name in BROKER_DEFINITION.keys if broker[name] is None}
    assert optional == {
        "node.id",
        "broker.rack",
        "advertised.listeners",
        "inter.broker.listener.name",
        "log.retention.minutes",
        "ottla.coordination.path",
        "ottla.metrics.listen",
    }
    assert all(topic[name] is not None for name in TOPIC_DEFINITION.keys)


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ({"log.retention.hours": "1"}, HOUR_MS),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-1"}, -1),
    ],
)
def test_the_finest_unit_of_retention_wins(properties: dict[str, str], retention_ms: int) -> None:
    broker = BrokerConfig.parse(properties)
    assert broker.get_int("log.retention.ms") == retention_ms
    assert TopicConfig.parse({}, broker).get_int("retention.ms") == retention_ms


def test_node_id_is_another_name_of_broker_id() -> None:
    assert BrokerConfig.parse({"node.id": "7"}).get_int("broker.id") == 7
    assert BrokerConfig.parse({"node.id": "7", "broker.id": "7"}).get_int("broker.id") == 7
    (problem,) = problems_of(node_id="7", broker_id="8")
    assert "broker.id=8 and node.id=7" in problem


def test_log_dir_is_used_where_log_dirs_is_not_set() -> None:
    assert BrokerConfig.parse({"log.dir": "/a"}).log_dirs == ("/a",)
    assert BrokerConfig.parse({"log.dir": "/a", "log.dirs": "/b,/c"}).log_dirs == ("/b", "/c")
    assert BrokerConfig.parse({"log.dirs": "/b,/c"}).coordination_path == "/b/coordination.sqlite"
    assert BrokerConfig.parse({"ottla.coordination.path": "/x"}).coordination_path == "/x"


def test_a_topic_overrides_its_broker() -> None:
    broker = BrokerConfig.parse({"log.segment.bytes": "1000", "log.cleanup.policy": "compact,delete"})
    assert TopicConfig.parse({}, broker).get_int("segment.bytes") == 1000
    assert TopicConfig.parse({"segment.bytes": "2000"}, broker).get_int("segment.bytes") == 2000
    assert TopicConfig.parse({}, broker).get_list("cleanup.policy") == ("compact", "delete")


def test_all_problems_are_reported_together() -> None:
    problems = problems_of(
        log_segment_bytes="many",
        num_io_threads="8",
        log_retention_hour="1",
        log_retention_ms="0",
        listeners="SSL://:9093",
        queued_max_request_bytes="5",
    )
    assert problems == (
        "log.segment.bytes=many: expected a whole number",
        "known to Kafka, not served by Ottla: num.io.threads (one event loop serves all requests)",
        "unknown broker key log.retention.hour; the nearest known one is log.retention.hours",
        "log.retention.ms=0: expected -1 (no limit) or at least 1",
        "known to Kafka, not served by Ottla: security protocol SSL of the listener SSL",
        "queued.max.request.bytes=5: expected -1 or at least socket.request.max.bytes, which is 104857600",
    )


def test_a_rule_between_keys_is_left_out_when_one_of_them_is_refused_already() -> None:
    (problem,) = problems_of(listeners="nonsense", advertised_listeners="OTHER://h:1")
    assert problem.startswith("listeners=nonsense")


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"listeners": ""}, "at least one"),
        ({"listeners": "A://h:1,A://h:2"}, "name A appears twice"),
        ({"listeners": "A://h:1,B://h:1"}, "h:1 appears twice"),
        ({"listeners": "PLAINTEXT://h:65536"}, "at most 65535"),
        ({"listeners": "PLAINTEXT://::1:9092"}, "in brackets"),
        ({"listeners": "PLAINTEXT://h"}, "expected NAME://host:port"),
        ({"listeners": "CLIENTS://h:1"}, "CLIENTS has no security protocol"),
        ({"listeners": "PLAINTEXT://0.0.0.0:1"}, "set advertised.listeners"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "can't connect to 0.0.0.0"),
        ({"advertised.listeners": "OTHER://h:1"}, "OTHER is not among listeners"),
        ({"inter.broker.listener.name": "OTHER"}, "not among listeners"),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "expected NAME:PROTOCOL"),
        ({"max.connections.per.ip": "0"}, "nobody could connect"),
        ({"max.connections.per.ip.overrides": "10.0.0.1"}, "expected address:count"),
        ({"log.dirs": "/a,/a"}, "different directories"),
        ({"log.dirs": "/a,,/b"}, "different directories"),
        ({"compression.gzip.level": "0"}, "1 to 9"),
    ],
)
def test_what_does_not_fit_is_refused(properties: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.parse(properties)
    (problem,) = caught.value.problems
    assert said in problem


def test_listeners_are_read() -> None:
    config = BrokerConfig.parse(
        {
            "listeners": "clients://:0, PLAINTEXT://[::1]:9092",
            "listener.security.protocol.map": "CLIENTS:plaintext,PLAINTEXT:PLAINTEXT",
            "advertised.listeners": "CLIENTS://broker.example:9094",
            "inter.broker.listener.name": "plaintext",
        }
    )
    assert config.listeners() == [Listener("CLIENTS", "", 0), Listener("PLAINTEXT", "::1", 9092)]
    assert [str(listener) for listener in config.listeners()] == ["CLIENTS://:0", "PLAINTEXT://[::1]:9092"]
    assert config.advertised_listeners() == [Listener("CLIENTS", "broker.example", 9094)]
    assert config.inter_broker_listener_name() == "PLAINTEXT"


def test_limits_of_addresses_are_read() -> None:
    config = BrokerConfig.parse({"max.connections.per.ip.overrides": "10.0.0.1:5, [::1]:6"})
    assert config.connection_limit_by_address() == {"10.0.0.1": 5, "::1": 6}
    assert BrokerConfig.parse({}).connection_limit_by_address() == {}


def test_a_topic_refuses_what_it_does_not_serve() -> None:
    broker = BrokerConfig.parse({})
    with pytest.raises(ConfigError) as caught:
        TopicConfig.parse({"delete.retention.ms": "1", "retention": "1", "flush.messages": "0"}, broker)
    assert caught.value.problems == (
        "known to Kafka, not served by Ottla: delete.retention.ms (compaction is not served so far)",
        "Unknown topic config name: retention; the nearest known one is retention.ms",
        "Invalid value 0 for configuration flush.messages: expected at least 1",
    )


def test_a_key_tells_where_its_value_comes_from() -> None:
    broker = BrokerConfig.parse({"log.retention.hours": "2"})
    entry = TopicConfig.parse({"retention.ms": "5"}, broker).entry("retention.ms")
    assert (entry.value, entry.source) == ("5", ConfigSource.DYNAMIC_TOPIC)
    assert entry.origins == (
        Origin("retention.ms", "5", ConfigSource.DYNAMIC_TOPIC),
        Origin("log.retention.hours", "2", ConfigSource.STATIC_BROKER),
        Origin("log.retention.hours", "168", ConfigSource.DEFAULT),
    )
    entry = TopicConfig.parse({}, broker).entry("retention.ms")
    assert (entry.value, entry.source) == ("7200000", ConfigSource.STATIC_BROKER)
    assert broker.entry("log.segment.bytes").source is ConfigSource.DEFAULT
    assert broker.entry("broker.rack").value is None


def test_asking_for_an_undeclared_key_or_another_type_is_a_bug() -> None:
    config = BrokerConfig.parse({})
    with pytest.raises(KeyError):
        config.get_int("no.such.key")
    with pytest.raises(AssertionError, match=r"log\.dirs is not a whole number"):
        config.get_int("log.dirs")
    with pytest.raises(AssertionError, match="is not a whole number"):
        config.get_int("delete.topic.enable")
