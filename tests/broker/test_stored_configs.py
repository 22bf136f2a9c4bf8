"""Configs in the store at a start: what is good holds, what can't be used is named and left out."""

import logging

import pytest

from ottla.broker.stored_configs import log_unusable_topic_configs, with_stored
from ottla.controller.state import StoredBrokerConfigs
from ottla.core.cluster import TopicImage
from ottla.core.config.config import BrokerConfig, ConfigSource


def test_dynamic_entries_are_in_force_from_the_start() -> None:
    config = with_stored(
        BrokerConfig.parse({"max.connections": "3"}),
        StoredBrokerConfigs({"max.connections": "4"}, {"max.connections": "5", "log.segment.bytes": "6000"}),
    )
    assert config.get_int("max.connections") == 4
    assert config.get_int("log.segment.bytes") == 6000
    assert config.entry("log.segment.bytes").source is ConfigSource.DYNAMIC_DEFAULT_BROKER


def test_entries_that_cannot_be_used_are_named_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    stored = StoredBrokerConfigs(
        {"max.connections": "many", "broker.rack": "b", "log.segment.bytes": "6000", "max.connections.per.ip": "0"},
        {"some.plugin.key": "1", "log.retention.ms": "0"},
    )
    with caplog.at_level(logging.ERROR):
        config = with_stored(BrokerConfig.parse({}), stored)
    assert config.get_int("log.segment.bytes") == 6000
    assert config["broker.rack"] is None
    for name in ("max.connections", "max.connections.per.ip", "log.retention.ms"):
        assert config.entry(name).source is ConfigSource.DEFAULT
    for words in (
        "max.connections=many",
        "broker.rack",
        "some.plugin.key",
        "log.retention.ms=0",
        "nobody could connect",
    ):
        assert words in caplog.text


def test_a_topic_with_a_wrong_entry_is_named(caplog: pytest.LogCaptureFixture) -> None:
    images = [TopicImage("orders", bytes(16), {"retention.ms": "soon"}, {}), TopicImage("fine", bytes(16), {}, {})]
    with caplog.at_level(logging.ERROR):
        log_unusable_topic_configs(images, BrokerConfig.parse({}))
    assert "topic orders" in caplog.text
    assert "Invalid value soon for configuration retention.ms" in caplog.text
    assert "fine" not in caplog.text
