"""The producer's config: Kafka's names, typed or text, with rules across keys."""

from pathlib import Path
from typing import Any

import pytest

from ottla.clients.config import ClientConfig, UnknownConfigKey
from ottla.clients.producer.keys import PRODUCER_DEFINITION, partitioner_of, serializer_of, settings_of
from ottla.clients.producer.partitioners import RoundRobinPartitioner
from ottla.clients.producer.serializers import serialize_string
from ottla.clients.producer.settings import ProducerSettings
from ottla.core.config.definition import ConfigError
from ottla.records.compression import ZSTD


def parsed(config: dict[str, Any] | None = None, **keywords: Any) -> ClientConfig:
    return ClientConfig.parse(PRODUCER_DEFINITION, config, **keywords)


def test_defaults_of_keys_and_settings_agree() -> None:
    assert settings_of(parsed()) == ProducerSettings()


def test_dots_and_underscores_text_and_values_mean_the_same() -> None:
    dotted = parsed({"linger.ms": "7", "acks": "1", "compression.type": "zstd", "compression.zstd.level": "9"})
    keywords = parsed(linger_ms=7, acks=1, compression_type="zstd", compression_zstd_level=9)
    assert settings_of(dotted) == settings_of(keywords)
    assert (settings_of(dotted).codec, settings_of(dotted).compression_level) == (ZSTD, 9)


def test_an_unknown_key_is_named_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown producer key linger\.msec; the nearest known one is linger\.ms"):
        parsed({"linger.msec": 5})


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"acks": "2"}, "acks=2: expected one of"),
        ({"compression.gzip.level": 0}, "compression.gzip.level=0: expected 1 to 9, or -1"),
        ({"batch.size": -1}, "batch.size=-1: expected at least 0"),
        ({"delivery.timeout.ms": 1_000}, r"expected at least linger.ms \+ request.timeout.ms, 30005"),
        ({"enable.idempotence": True, "acks": "1"}, "enable.idempotence=true is not possible with acks=1"),
        ({"enable.idempotence": True, "retries": 0}, "retries=0"),
        (
            {"enable.idempotence": True, "max.in.flight.requests.per.connection": 6},
            "max.in.flight.requests.per.connection is above 5",
        ),
        ({"transactional.id": "t", "enable.idempotence": False}, "must have enable.idempotence=true"),
        ({"transactional.id": "t", "acks": "1"}, "transactional.id is not possible with acks=1"),
    ],
)
def test_what_does_not_fit_is_refused(config: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parsed(config)


@pytest.mark.parametrize("config", [{"acks": "1"}, {"retries": 0}, {"max.in.flight.requests.per.connection": 6}])
def test_idempotence_gives_way_where_it_was_not_asked_for(config: dict[str, Any]) -> None:
    assert not settings_of(parsed(config)).is_idempotent


def test_the_delivery_timeout_grows_with_what_it_must_hold() -> None:
    assert settings_of(parsed(request_timeout_ms=300_000)).delivery_timeout_ms == 300_005


def test_serializers_by_name_and_as_callables() -> None:
    assert serializer_of(parsed({"key.serializer": "StringSerializer"}), "key.serializer") is serialize_string
    java = "org.apache.kafka.common.serialization.LongSerializer"
    longs = serializer_of(parsed({"key.serializer": java}), "key.serializer")
    assert longs is not None
    assert longs("t", 1) == b"\0" * 7 + b"\x01"
    assert serializer_of(parsed(key_serializer=serialize_string), "key.serializer") is serialize_string
    topic_partition = "ottla.clients.producer.serializers:serialize_string"
    assert serializer_of(parsed(key_serializer=topic_partition), "key.serializer") is serialize_string
    with pytest.raises(ConfigError, match=r"key.serializer=JsonSerializer: no serializer"):
        serializer_of(parsed(key_serializer="JsonSerializer"), "key.serializer")


def test_partitioners_by_name_and_as_callables() -> None:
    assert partitioner_of(parsed()) is None
    assert isinstance(partitioner_of(parsed(partitioner_class="round-robin")), RoundRobinPartitioner)
    custom = partitioner_of(parsed(partitioner_class=lambda topic, key, value, count: count - 1))
    assert custom is not None
    assert custom("t", None, None, 5) == 4


def test_a_file_is_read_with_a_warning_for_what_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "producer.properties"
    path.write_text("linger.ms=9\nsome.other.key=1\n")
    with pytest.warns(UnknownConfigKey, match=r"some\.other\.key"):
        config = ClientConfig.from_properties(PRODUCER_DEFINITION, path)
    assert settings_of(config).linger_ms == 9
