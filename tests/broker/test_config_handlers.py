"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: what they answer and what they refuse."""

import logging
from collections.abc import Iterator

import pytest

from ottla.broker.config_alterations import ResourceType
from ottla.controller.config_edits import ConfigOperation
from ottla.core.config.broker_keys import BROKER_DEFINITION
from ottla.core.config.config import ConfigSource
from ottla.core.config.topic_keys import TOPIC_DEFINITION
from ottla.core.config.values import ConfigType
from ottla.core.errors import ErrorCode
from ottla.protocol.messages import alter_configs, incremental_alter_configs
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tests.broker.rig import Rig

TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER
SET, DELETE, APPEND, SUBTRACT = ConfigOperation


def describe(
    rig: Rig,
    resource_type: int,
    name: str,
    *keys: str,
    version: int = 4,
    synonyms: bool = False,
    documentation: bool = False,
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=synonyms, include_documentation=documentation
    )
    (result,) = rig.ask(request, DescribeConfigsResponse, version).results
    assert (result.resource_type, result.resource_name) == (resource_type, name)
    return result


def entry(rig: Rig, resource_type: int, name: str, key: str, **options: bool) -> DescribeConfigsResourceResult:
    (found,) = describe(rig, resource_type, name, key, **options).configs
    return found


def incremental(
    rig: Rig,
    *resources: tuple[int, str, list[tuple[str, int, str | None]]],
    version: int = 1,
    validate_only: bool = False,
) -> list[tuple[int, str | None]]:
    """(type, name, [(key, operation, value)]) each; (error code, message) each."""
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in edits
                ],
            )
            for resource_type, name, edits in resources
        ],
        validate_only=validate_only,
    )
    response = rig.ask(request, incremental_alter_configs.IncrementalAlterConfigsResponse, version)
    assert [(one.resource_type, one.resource_name) for one in response.responses] == [one[:2] for one in resources]
    return [(one.error_code, one.error_message) for one in response.responses]


def alter(
    rig: Rig, *resources: tuple[int, str, dict[str, str | None]], version: int = 2, validate_only: bool = False
) -> list[tuple[int, str | None]]:
    request = alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configs=[alter_configs.AlterableConfig(name=key, value=value) for key, value in entries.items()],
            )
            for resource_type, name, entries in resources
        ],
        validate_only=validate_only,
    )
    response = rig.ask(request, alter_configs.AlterConfigsResponse, version)
    return [(one.error_code, one.error_message) for one in response.responses]


# Describe


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topic_shows_every_key_with_its_value(rig: Rig, version: int) -> None:
    rig.create_topic(retention_ms="5000")
    result = describe(rig, TOPIC, "orders", version=version)
    assert (result.error_code, result.error_message) == (0, None)
    assert [one.name for one in result.configs] == list(TOPIC_DEFINITION.keys)
    by_name = {one.name: one for one in result.configs}
    assert by_name["retention.ms"].value == "5000"
    assert by_name["retention.ms"].config_source == ConfigSource.DYNAMIC_TOPIC
    assert by_name["segment.bytes"].value == str(1 << 30)
    assert by_name["segment.bytes"].config_source == ConfigSource.DEFAULT
    assert not any(one.read_only or one.is_sensitive or one.synonyms for one in result.configs)
    if version >= 3:
        assert by_name["retention.ms"].config_type == ConfigType.LONG
        assert by_name["retention.ms"].documentation is None


def test_synonyms_come_in_the_order_in_which_they_win(rig: Rig) -> None:
    rig.create_topic(retention_ms="5000")
    incremental(rig, (BROKER, "1", [("log.retention.ms", SET, "6000")]))
    incremental(rig, (BROKER, "", [("log.retention.ms", SET, "7000")]))
    shown = entry(rig, TOPIC, "orders", "retention.ms", synonyms=True)
    assert [(one.name, one.value, one.source) for one in shown.synonyms] == [
        ("retention.ms", "5000", ConfigSource.DYNAMIC_TOPIC),
        ("log.retention.ms", "6000", ConfigSource.DYNAMIC_BROKER),
        ("log.retention.ms", "7000", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]


def test_documentation_comes_when_it_is_asked_for(rig: Rig) -> None:
    rig.create_topic()
    assert all(one.documentation for one in describe(rig, TOPIC, "orders", documentation=True).configs)
    assert all(one.documentation for one in describe(rig, BROKER, "1", documentation=True).configs)


def test_only_the_keys_that_are_asked_for_come_and_unknown_ones_are_left_out(rig: Rig) -> None:
    rig.create_topic()
    result = describe(rig, TOPIC, "orders", "nonsense", "segment.ms", "retention.ms")
    assert {one.name for one in result.configs} == {"segment.ms", "retention.ms"}


def test_an_empty_list_of_keys_asks_for_all(rig: Rig) -> None:
    rig.create_topic()
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name="orders", configuration_keys=[])
    answer = rig.ask(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse, 4)
    assert len(answer.results[0].configs) == len(TOPIC_DEFINITION.keys)


def test_a_broker_shows_every_key_and_which_are_read_only(rig: Rig) -> None:
    result = describe(rig, BROKER, "1")
    by_name = {one.name: one for one in result.configs}
    assert list(by_name) == list(BROKER_DEFINITION.keys)
    assert by_name["log.dirs"].read_only
    assert by_name["log.dirs"].config_source == ConfigSource.STATIC_BROKER
    assert not by_name["log.retention.ms"].read_only


def test_all_brokers_show_only_what_was_set_for_them(rig: Rig) -> None:
    assert describe(rig, BROKER, "").configs == []
    incremental(rig, (BROKER, "", [("max.connections", SET, "50"), ("log.segment.bytes", SET, "5000")]))
    incremental(rig, (BROKER, "1", [("max.connections", SET, "60")]))
    shown = describe(rig, BROKER, "", "max.connections", "log.retention.ms", synonyms=True).configs
    assert [(one.name, one.value, one.config_source) for one in shown] == [
        ("max.connections", "50", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    ]
    assert len(describe(rig, BROKER, "").configs) == 2


@pytest.mark.parametrize(
    ("resource_type", "name", "error_code"),
    [
        (TOPIC, "nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (ResourceType.CLIENT_METRICS, "m", ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "g", ErrorCode.INVALID_REQUEST),
        (3, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described_or_altered_says_why(
    rig: Rig, resource_type: int, name: str, error_code: ErrorCode
) -> None:
    result = describe(rig, resource_type, name)
    assert result.error_code == error_code
    assert result.error_message
    assert result.configs == []
    ((code, message),) = incremental(rig, (resource_type, name, [("retention.ms", SET, "5")]))
    assert code == error_code
    assert message


def test_a_topics_entry_that_cannot_be_used_shows_the_brokers_value(rig: Rig) -> None:
    image = rig.create_topic()
    rig.topics.state.topics["orders"] = image._replace(configs={"retention.ms": "soon"})
    shown = entry(rig, TOPIC, "orders", "retention.ms")
    assert (shown.value, shown.config_source) == ("604800000", ConfigSource.DEFAULT)


# Alter


@pytest.mark.parametrize("version", [0, 1])
def test_edits_one_by_one(rig: Rig, version: int) -> None:
    rig.create_topic(segment_ms="5")
    edits: list[tuple[str, int, str | None]] = [("retention.ms", SET, "77"), ("cleanup.policy", APPEND, "compact")]
    assert incremental(rig, (TOPIC, "orders", edits), version=version) == [(0, None)]
    assert rig.cache.topics["orders"].configs == {
        "segment.ms": "5",
        "retention.ms": "77",
        "cleanup.policy": "delete,compact",
    }
    edits = [("segment.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete")]
    assert incremental(rig, (TOPIC, "orders", edits), version=version) == [(0, None)]
    assert rig.topics.state.topics["orders"].configs == {"retention.ms": "77", "cleanup.policy": "compact"}


@pytest.mark.parametrize("version", range(3))
def test_a_whole_config_is_replaced(rig: Rig, version: int) -> None:
    rig.create_topic(segment_ms="5")
    assert alter(rig, (TOPIC, "orders", {"retention.ms": "77"}), version=version) == [(0, None)]
    assert rig.cache.topics["orders"].configs == {"retention.ms": "77"}
    assert alter(rig, (TOPIC, "orders", {}), validate_only=True) == [(0, None)]
    assert rig.cache.topics["orders"].configs == {"retention.ms": "77"}
    ((code, message),) = alter(rig, (TOPIC, "orders", {"retention.ms": None}))
    assert code == ErrorCode.INVALID_REQUEST
    assert message == "Null value not supported for : retention.ms"


def test_each_resource_of_a_request_has_its_own_outcome(rig: Rig) -> None:
    rig.create_topic("orders")
    rig.create_topic("payments")
    edit: list[tuple[str, int, str | None]] = [("retention.ms", SET, "77")]
    outcomes = incremental(rig, (TOPIC, "nobody", edit), (TOPIC, "orders", edit), (BROKER, "1", edit))
    assert [code for code, _ in outcomes] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
    ]
    assert rig.cache.topics["orders"].configs == {"retention.ms": "77"}
    # Named twice: refused both times, the others are done.
    outcomes = incremental(rig, (TOPIC, "orders", []), (TOPIC, "payments", edit), (TOPIC, "orders", edit))
    assert [code for code, _ in outcomes] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert [code for code, _ in alter(rig, (TOPIC, "orders", {}), (TOPIC, "orders", {}))] == [
        ErrorCode.INVALID_REQUEST
    ] * 2


def test_a_request_for_nothing_is_answered(rig: Rig) -> None:
    assert incremental(rig) == []
    assert alter(rig) == []
    assert rig.ask(DescribeConfigsRequest(), DescribeConfigsResponse, 4).results == []


def test_validate_only_checks_and_changes_nothing(rig: Rig) -> None:
    rig.create_topic()
    good: list[tuple[str, int, str | None]] = [("retention.ms", SET, "77")]
    bad: list[tuple[str, int, str | None]] = [("retention.ms", SET, "x")]
    assert incremental(rig, (TOPIC, "orders", good), validate_only=True) == [(0, None)]
    assert incremental(rig, (TOPIC, "orders", bad), validate_only=True)[0][0] == ErrorCode.INVALID_CONFIG
    assert rig.cache.topics["orders"].configs == {}


# Loggers


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.getLogger("ottla.test.levels")
    root_level = logging.root.level
    yield made
    made.setLevel(logging.NOTSET)
    logging.root.setLevel(root_level)


def test_the_level_of_a_logger_is_set_and_left_to_the_one_above(rig: Rig, logger: logging.Logger) -> None:
    name = logger.name
    assert incremental(rig, (LOGGER, "1", [("root", SET, "ERROR")])) == [(0, None)]
    assert entry(rig, LOGGER, "1", name).value == "ERROR"
    assert incremental(rig, (LOGGER, "1", [(name, SET, "TRACE")])) == [(0, None)]
    assert logger.isEnabledFor(5)
    shown = entry(rig, LOGGER, "1", name)
    assert (shown.value, shown.config_source) == ("TRACE", ConfigSource.DYNAMIC_BROKER_LOGGER)
    assert incremental(rig, (LOGGER, "1", [(name, SET, "FATAL")]), validate_only=True) == [(0, None)]
    assert incremental(rig, (LOGGER, "1", [(name, DELETE, None)])) == [(0, None)]
    assert logger.level == logging.NOTSET
    assert {"root", name} <= {one.name for one in describe(rig, LOGGER, "1").configs}


def test_levels_that_make_no_sense_are_refused(rig: Rig, logger: logging.Logger) -> None:
    def refusal(key: str, operation: int, value: str | None) -> int:
        return incremental(rig, (LOGGER, "1", [(key, operation, value)]))[0][0]

    assert refusal(logger.name, SET, "LOUD") == ErrorCode.INVALID_CONFIG
    assert refusal("someone.elses", SET, "INFO") == ErrorCode.INVALID_CONFIG
    assert refusal("root", DELETE, None) == ErrorCode.INVALID_REQUEST
    assert refusal(logger.name, APPEND, "INFO") == ErrorCode.INVALID_REQUEST
    assert alter(rig, (LOGGER, "1", {"root": "INFO"}))[0][0] == ErrorCode.INVALID_REQUEST
