"""A changed config takes effect at once: in the next append, roll, retention and connection."""

from typing import Any

import pytest

from ottla.broker import config_effects
from ottla.controller.config_edits import ConfigChange, ConfigEdit, ConfigOperation
from ottla.core.config.broker_keys import BROKER_DEFINITION
from ottla.core.config.definition import DynamicMode
from ottla.core.config.topic_keys import TOPIC_DEFINITION
from ottla.core.errors import ErrorCode
from ottla.core.exchange import Deferred
from ottla.records.compression import NONE, ZSTD
from tests.broker.rig import Rig, bytes_of, decode_produced
from tests.storage.log_making import NOW_MS, batch, headers_of

# A value that is not the default, for every key of a topic, and what the log makes of it.
SAMPLES: dict[str, tuple[str, dict[str, Any]]] = {
    "cleanup.policy": ("compact", {"compact": True, "delete": False}),
    "compression.type": ("zstd", {"compression_type": "zstd"}),
    "compression.gzip.level": ("5", {"compression_gzip_level": 5}),
    "compression.lz4.level": ("5", {"compression_lz4_level": 5}),
    "compression.zstd.level": ("5", {"compression_zstd_level": 5}),
    "file.delete.delay.ms": ("5", {"file_delete_delay_ms": 5}),
    "flush.messages": ("5", {"flush_messages": 5}),
    "flush.ms": ("5", {"flush_ms": 5}),
    "index.interval.bytes": ("5", {"index_interval_bytes": 5}),
    "max.message.bytes": ("500", {"max_message_bytes": 500}),
    "message.timestamp.after.max.ms": ("5", {"message_timestamp_after_max_ms": 5}),
    "message.timestamp.before.max.ms": ("5", {"message_timestamp_before_max_ms": 5}),
    "message.timestamp.type": ("LogAppendTime", {"message_timestamp_type": "LogAppendTime"}),
    "min.insync.replicas": ("2", {"min_insync_replicas": 2}),
    "retention.bytes": ("5", {"retention_bytes": 5}),
    "retention.ms": ("5", {"retention_ms": 5}),
    "segment.bytes": ("500", {"segment_bytes": 500}),
    "segment.index.bytes": ("500", {"segment_index_bytes": 500}),
    "segment.jitter.ms": ("5", {"segment_jitter_ms": 5}),
    "segment.ms": ("500", {"segment_ms": 500}),
    "unclean.leader.election.enable": ("true", {}),  # the controller reads it when it elects
}


def set_topic(rig: Rig, topic: str = "orders", **configs: str) -> None:
    """`flush_messages="1"` stands for the key flush.messages."""
    edits = [ConfigEdit(name.replace("_", "."), value) for name, value in configs.items()]
    assert rig.pump.call(rig.configs.alter_topic, topic, ConfigChange(edits)) is None


def set_broker(rig: Rig, configs: dict[str, str | None], name: str = "1") -> None:
    edits = [
        ConfigEdit(key, value, ConfigOperation.DELETE if value is None else ConfigOperation.SET)
        for key, value in configs.items()
    ]
    assert rig.pump.call(rig.configs.alter_broker, name, ConfigChange(edits)) is None


def test_every_key_that_can_change_has_its_effect() -> None:
    dynamic = {name for name, key in BROKER_DEFINITION.keys.items() if key.dynamic is not DynamicMode.READ_ONLY}
    assert dynamic == (
        config_effects.TOPIC_DEFAULTS
        | config_effects.CONNECTION_LIMITS
        | config_effects.AT_NEXT_START
        | {config_effects.THREADS, config_effects.PRODUCER_EXPIRATION}
    )
    assert SAMPLES.keys() == TOPIC_DEFINITION.keys.keys()


@pytest.mark.parametrize("key", SAMPLES)
def test_a_topics_key_reaches_its_logs_and_no_others(rig: Rig, key: str) -> None:
    rig.create_topic("orders", 2)
    rig.create_topic("payments")
    before = rig.partition("orders").log.config
    text, expected = SAMPLES[key]
    set_topic(rig, **{key.replace(".", "_"): text})
    for index in (0, 1):
        assert rig.partition("orders", index).log.config == before._replace(**expected)
    assert rig.partition("payments").log.config == before


@pytest.mark.parametrize("key", SAMPLES)
def test_a_brokers_key_reaches_the_topics_that_have_no_value_of_their_own(rig: Rig, key: str) -> None:
    text, expected = SAMPLES[key]
    broker_key = TOPIC_DEFINITION.keys[key].synonyms[0].name
    rig.create_topic("orders")
    before = rig.partition("orders").log.config
    own = rig.current.value.entry(broker_key).value
    rig.create_topic("payments", 1, **{key.replace(".", "_"): str(own)})
    set_broker(rig, {broker_key: text}, name="")
    assert rig.partition("orders").log.config == before._replace(**expected)
    assert rig.partition("payments").log.config == before
    rig.create_topic("later")
    assert rig.partition("later").log.config == before._replace(**expected)
    set_broker(rig, {broker_key: None}, name="")
    assert rig.partition("orders").log.config == before


def test_the_next_append_rolls_by_the_new_size(rig: Rig) -> None:
    rig.create_topic()
    rig.produce(batch(b"x" * 100))
    rig.produce(batch(b"x" * 100))
    assert rig.partition().log.segment_count == 1
    set_topic(rig, segment_bytes="200")
    rig.produce(batch(b"x" * 100))
    assert rig.partition().log.segment_count == 2


def test_the_next_look_of_the_retention_goes_by_the_new_time(rig: Rig) -> None:
    rig.create_topic(segment_bytes="200")
    for _ in range(3):
        rig.produce(batch(b"x" * 100))
    log = rig.partition().log
    rig.log_manager.delete_expired(NOW_MS + 5000, high_watermark_of=lambda _: rig.partition().high_watermark)
    assert log.log_start_offset == 0
    set_topic(rig, retention_ms="1000")
    rig.log_manager.delete_expired(NOW_MS + 5000, high_watermark_of=lambda _: rig.partition().high_watermark)
    assert log.log_start_offset > 0


def test_a_producer_whose_requests_are_known_meets_the_new_limit(rig: Rig) -> None:
    rig.create_topic()
    for _ in range(3):
        assert rig.produce(batch(b"x" * 100))[0] == ErrorCode.NONE
    set_topic(rig, max_message_bytes="100")
    assert rig.produce(batch(b"x" * 100))[0] == ErrorCode.MESSAGE_TOO_LARGE
    set_topic(rig, max_message_bytes="1000", min_insync_replicas="2")
    assert rig.produce(batch(b"x" * 100))[0] == ErrorCode.NOT_ENOUGH_REPLICAS
    set_topic(rig, min_insync_replicas="1")
    assert rig.produce(batch(b"x" * 100)) == (ErrorCode.NONE, 3)


def test_the_next_batch_is_stored_in_the_new_codec(rig: Rig) -> None:
    rig.create_topic()
    rig.produce(batch(b"x" * 100))
    set_topic(rig, compression_type="zstd")
    answer = rig.send_produce(("orders", 0, batch(b"x" * 100)))
    rig.background.run_all()
    assert decode_produced(answer).topics[0][1][0].error_code == ErrorCode.NONE
    assert [header.compression for header in headers_of(rig.partition().log)] == [NONE, ZSTD]


def test_the_next_produce_waits_for_the_fsync_that_was_asked_for(rig: Rig) -> None:
    rig.create_topic()
    rig.produce(batch(b"a"))
    set_topic(rig, flush_messages="1")
    answer = rig.send_produce(("orders", 0, batch(b"b")))
    assert isinstance(answer, Deferred)
    assert not answer.is_complete
    rig.flush()
    assert bytes_of(answer)
    set_topic(rig, flush_messages="9223372036854775807")
    assert rig.produce(batch(b"c")) == (ErrorCode.NONE, 2)


def test_the_brokers_time_is_taken_from_now_on(rig: Rig) -> None:
    rig.create_topic()
    rig.produce(batch(b"a", timestamp_ms=NOW_MS - 500))
    set_broker(rig, {"log.message.timestamp.type": "LogAppendTime"})
    rig.produce(batch(b"b", timestamp_ms=NOW_MS - 500))
    times = [header.max_timestamp_ms for header in headers_of(rig.partition().log)]
    assert times == [NOW_MS - 500, NOW_MS]


def test_limits_of_connections_threads_and_producers_change(rig: Rig) -> None:
    rig.create_topic()
    set_broker(
        rig,
        {
            "max.connections": "11",
            "max.connections.per.ip": "12",
            "max.connections.per.ip.overrides": "127.0.0.1:13",
            "max.connection.creation.rate": "14",
            "background.threads": "3",
            "producer.id.expiration.ms": "1000",
        },
    )
    limits = rig.network.limits
    assert (limits.max_connections, limits.max_connections_per_ip) == (11, 12)
    assert (limits.max_connections_per_ip_overrides, limits.max_connection_creation_rate) == ({"127.0.0.1": 13}, 14)
    assert rig.background.threads == 3
    rig.produce(batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0))
    rig.log_manager.expire_producers(NOW_MS + 999)
    assert rig.produce(batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0)) == (0, 0)
    rig.log_manager.expire_producers(NOW_MS + 1000)
    assert rig.produce(batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0)) == (0, 1)


def test_a_config_is_not_applied_to_a_topic_that_is_being_deleted(rig: Rig) -> None:
    rig.create_topic()
    done: list[Any] = []
    rig.topics.delete("orders", done.append)
    rig.pump.run_until(lambda: bool(done))
    rig.local_topics.use_topic_config("orders", {})
    assert "orders" not in rig.cache.topics


def test_nothing_is_replaced_where_a_change_says_the_same(rig: Rig) -> None:
    rig.create_topic()
    before = rig.partition().log.config
    set_broker(rig, {"max.connections": "50"})
    set_topic(rig, retention_ms="604800000")
    assert rig.partition().log.config is before
