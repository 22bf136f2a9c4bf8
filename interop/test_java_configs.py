"""kafka-configs against our broker: describe and alter of topics, brokers, defaults and loggers."""

import re

import pytest

from interop.broker_process import BrokerProcess
from interop.conftest import CreateTopic
from interop.java_tools import configs

pytestmark = pytest.mark.usefixtures("kafka_tools")


def broker_id(broker: BrokerProcess) -> str:
    described = configs(broker, "--describe", "--entity-type", "brokers")
    found = re.search(r"configs for broker (\d+) ", described)
    assert found is not None, described
    return found[1]


@pytest.mark.smoke
def test_topic_setting_is_set_shown_and_taken_back(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    entity = ["--entity-type", "topics", "--entity-name", create_topic("settled")]
    wish = "retention.ms=60000,cleanup.policy=[compact,delete]"
    assert "Completed updating" in configs(broker, "--alter", *entity, "--add-config", wish)
    printed = configs(broker, "--describe", *entity)
    assert re.search(
        r"retention\.ms=60000 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:retention\.ms=60000\b", printed
    ), printed
    assert "cleanup.policy=compact,delete " in printed
    configs(broker, "--alter", *entity, "--delete-config", "retention.ms")
    printed = configs(broker, "--describe", *entity)
    assert "retention.ms=60000" not in printed
    assert "cleanup.policy=compact,delete " in printed


@pytest.mark.smoke
def test_all_settings_of_a_topic_are_shown_with_their_sources(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic = create_topic("all-settings", config={"segment.bytes": "2097152"})
    printed = configs(broker, "--describe", "--all", "--entity-type", "topics", "--entity-name", topic)
    lines = {line.split("=")[0].strip(): line for line in printed.splitlines() if "synonyms=" in line}
    assert {"retention.ms", "cleanup.policy", "min.insync.replicas", "max.message.bytes"} <= lines.keys()
    assert "DYNAMIC_TOPIC_CONFIG:segment.bytes=2097152" in lines["segment.bytes"]
    assert "DEFAULT_CONFIG:log.segment.bytes=1073741824" in lines["segment.bytes"]
    assert "DEFAULT_CONFIG:log.cleanup.policy=delete" in lines["cleanup.policy"]


def test_setting_of_one_broker_and_of_all_is_altered(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic = create_topic("inherits")
    one = ["--entity-type", "brokers", "--entity-name", broker_id(broker)]
    everyone = ["--entity-type", "brokers", "--entity-default"]
    configs(broker, "--alter", *everyone, "--add-config", "log.retention.ms=7200000")
    configs(broker, "--alter", *one, "--add-config", "log.retention.ms=3600000")
    assert "log.retention.ms=7200000 " in configs(broker, "--describe", *everyone)
    printed = configs(broker, "--describe", *one)
    assert re.search(r"log\.retention\.ms=3600000 .*DYNAMIC_DEFAULT_BROKER_CONFIG:log\.retention\.ms=7200000", printed)
    of_topic = ["--describe", "--all", "--entity-type", "topics", "--entity-name", topic]
    assert " retention.ms=3600000 " in configs(broker, *of_topic)
    configs(broker, "--alter", *one, "--delete-config", "log.retention.ms")
    configs(broker, "--alter", *everyone, "--delete-config", "log.retention.ms")
    assert " retention.ms=604800000 " in configs(broker, *of_topic)


def test_all_settings_of_a_broker_are_shown(broker: BrokerProcess) -> None:
    entity = ["--entity-type", "brokers", "--entity-name", broker_id(broker)]
    printed = configs(broker, "--describe", "--all", *entity)
    names = set(re.findall(r"^\s+([a-z][a-z.]+)=", printed, re.MULTILINE))
    assert {"log.retention.hours", "num.partitions", "listeners", "offsets.retention.minutes"} <= names


@pytest.mark.parametrize("change", ["retention.ms=soon", "retention.msec=1"])
def test_setting_that_cannot_be_is_refused(broker: BrokerProcess, create_topic: CreateTopic, change: str) -> None:
    topic = create_topic(f"refuses-{change.partition('=')[0]}")
    wish = ["--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", change]
    printed = configs(broker, *wish, check=False)
    (why,) = re.findall(r"^Caused by: \S+\.InvalidConfigurationException: (.*)", printed, re.MULTILINE)
    assert change.partition("=")[0] in why


def test_setting_that_needs_a_restart_is_refused(broker: BrokerProcess) -> None:
    entity = ["--entity-type", "brokers", "--entity-name", broker_id(broker)]
    printed = configs(broker, "--alter", *entity, "--add-config", "num.partitions=7", check=False)
    assert re.search(r"^Caused by: \S+\.InvalidRequestException: .*num\.partitions", printed, re.MULTILINE), printed


def test_level_of_a_logger_is_altered(broker: BrokerProcess) -> None:
    entity = ["--entity-type", "broker-loggers", "--entity-name", broker_id(broker)]
    printed = configs(broker, "--describe", *entity)
    loggers = re.findall(r"^\s+([\w.]+)=([A-Z]+) ", printed, re.MULTILINE)
    assert loggers, printed
    name = loggers[0][0]
    configs(broker, "--alter", *entity, "--add-config", f"{name}=DEBUG")
    assert f"{name}=DEBUG " in configs(broker, "--describe", *entity)
