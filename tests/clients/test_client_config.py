"""A client's config: both spellings, text and typed values, every problem named at once."""

import warnings
from pathlib import Path
from typing import Any

import pytest

from ottla.clients.admin import ADMIN_DEFINITION
from ottla.clients.config import ClientConfig, ClientDefinition, UnknownConfigKey
from ottla.core.config.definition import ConfigError, ConfigKey
from ottla.core.config.values import ConfigType

DEFINITION = ClientDefinition(
    "test client",
    (
        ConfigKey("some.list", ConfigType.LIST, (), "A list."),
        ConfigKey("some.flag", ConfigType.BOOLEAN, False, "A flag."),
        ConfigKey("some.ratio", ConfigType.DOUBLE, 0.5, "A ratio."),
        ConfigKey("some.object", ConfigType.CLASS, None, "An object."),
        ConfigKey("some.secret", ConfigType.PASSWORD, None, "A secret.", check=lambda value: "too short"),
    ),
    rules=(lambda config: "a ratio needs a flag" if config.get_float("some.ratio") > 1 else None,),
)


def parse(settings: dict[str, Any] | None = None, /, **keywords: Any) -> ClientConfig:
    return ClientConfig.parse(DEFINITION, settings, **keywords)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("request.timeout.ms", "1500", 1500),
        ("request_timeout_ms", 1500, 1500),
        ("bootstrap.servers", "a:1, b:2", ("a:1", "b:2")),
        ("bootstrap_servers", ["a:1", "b:2"], ("a:1", "b:2")),
        ("some.flag", True, True),
        ("some.flag", "TRUE", True),
        ("some.ratio", 1, 1.0),
        ("some.ratio", "0.25", 0.25),
        ("some.list", (), ()),
        ("client.id", None, "ottla"),
    ],
)
def test_values_come_as_text_or_typed_under_both_spellings(name: str, value: object, expected: object) -> None:
    assert parse({name: value})[name.replace("_", ".")] == expected
    assert parse(**{name.replace(".", "_"): value})[name.replace("_", ".")] == expected


def test_every_problem_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(
            {"bootstrap.server": "a:1", "request.timeout.ms": 0, "some.flag": 1, "bootstrap.servers": "nowhere"},
            ssl_protocol="TLS",
            some_secret="hunter2",
            some_list=7.5j,
        )
    assert caught.value.problems == (
        "unknown test client key bootstrap.server; the nearest known one is bootstrap.servers",
        "request.timeout.ms=0: expected at least 1",
        "some.flag=1: expected true or false",
        "bootstrap.servers=nowhere: 'nowhere' is not host:port",
        "known to Kafka, not served by Ottla: ssl.protocol",
        "some.secret=(hidden): too short",
        "some.list=7.5j: expected list, not complex",
    )


def test_a_key_given_twice_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match=r"client\.id is given twice"):
        parse({"client.id": "a"}, client_id="b")


def test_rules_over_several_keys_are_checked_last() -> None:
    with pytest.raises(ConfigError, match="a ratio needs a flag"):
        parse(some_ratio=2)


def test_objects_are_taken_as_they_are_or_found_by_name() -> None:
    assert parse(some_object=len).get_object("some.object") is len
    assert parse(some_object="json:dumps").get_object("some.object").__name__ == "dumps"
    assert parse(some_object="json.dumps").get_object("some.object").__name__ == "dumps"
    assert parse().get_object("some.object") is None
    assert parse(some_object=["json:dumps", len]).get_objects("some.object")[1] is len
    assert len(parse(some_object="json:dumps, json:loads").get_objects("some.object")) == 2
    assert parse().get_objects("some.object") == ()
    with pytest.raises(ConfigError, match=r"expected an object or package\.module:Name"):
        parse(some_object="nowhere.to.be:Found").get_object("some.object")


def test_a_file_may_have_keys_of_others(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=a:1\nbootstrap.severs=b:1\nacks=all\nclient.id=from-file\n", encoding="utf-8")
    with pytest.warns(UnknownConfigKey) as seen:
        config = ClientConfig.from_properties(DEFINITION, path, client_id="on-top")
    assert config.bootstrap == "a:1"
    assert config.client_id == "on-top"
    assert [str(warning.message) for warning in seen] == [
        f"{path}: unknown test client key bootstrap.severs; the nearest known one is bootstrap.servers",
        f"{path}: unknown test client key acks",
    ]
    path.write_text("request.timeout.ms=soon\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="expected a whole number"), warnings.catch_warnings():
        ClientConfig.from_properties(DEFINITION, path)


def test_network_settings_follow_the_config() -> None:
    settings = parse(reconnect_backoff_ms=7, send_buffer_bytes=1024).network_settings()
    assert (settings.reconnect_backoff_ms, settings.send_buffer_bytes) == (7, 1024)
    assert settings.request_timeout_ms == 30_000


def test_a_common_key_without_effect_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match=r"metadata\.max\.age\.ms \(every operation fetches new metadata"):
        ClientConfig.parse(ADMIN_DEFINITION, metadata_max_age_ms=5)
