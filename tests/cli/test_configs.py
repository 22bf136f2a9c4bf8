"""`ottla configs` against a broker."""

from typing import Any

import pytest

from tests.cli.conftest import Ended, MakeTopic, Ottla
from tests.processes import eventually

pytestmark = pytest.mark.process


def entries(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.err
    (resource,) = ended.json
    return {entry["name"]: entry for entry in resource["configs"]}


def becomes(ottla: Ottla, resource: tuple[str, ...], key: str, value: str | None, *, source: str | None = None) -> None:
    """Wait for a value, None for none that differs: a change needs a moment from Kafka's controller to its brokers."""

    def is_so() -> bool:
        entry = entries(ottla("configs", "describe", *resource, "--json")).get(key, {})
        return entry.get("value") == value and (source is None or entry["source"] == source)

    eventually(is_so)


def test_a_topic_s_keys_come_with_source_type_synonyms_and_documentation(ottla: Ottla, make_topic: MakeTopic) -> None:
    make_topic("described")
    found = entries(ottla("configs", "describe", "--topic", "described", "--all", "--json"))
    retention = found["retention.ms"]
    assert retention["source"] == "DEFAULT_CONFIG"
    assert retention["type"] == "LONG"
    assert retention["documentation"]
    assert not retention["read_only"]
    assert found["cleanup.policy"]["synonyms"][-1]["name"] == "log.cleanup.policy"
    assert "retention.ms" not in entries(ottla("configs", "describe", "--topic", "described", "--json"))


def test_a_key_is_set_shown_and_unset(ottla: Ottla, make_topic: MakeTopic) -> None:
    make_topic("altered")
    ended = ottla("configs", "alter", "--topic", "altered", "--set", "retention.ms=99", "--set", "segment.ms=88")
    assert (ended.code, ended.out) == (0, "altered topic altered: retention.ms=99, segment.ms=88\n")
    becomes(ottla, ("--topic", "altered"), "retention.ms", "99")
    shown = ottla("configs", "describe", "--topic", "altered")
    assert shown.out.splitlines()[0] == "topic altered:"
    assert ["retention.ms", "99", "DYNAMIC_TOPIC_CONFIG", "no"] in [row[:4] for row in shown.rows]
    assert ottla("configs", "alter", "--topic", "altered", "--unset", "retention.ms").code == 0
    becomes(ottla, ("--topic", "altered"), "retention.ms", None)
    becomes(ottla, ("--topic", "altered"), "segment.ms", "88")


def test_lists_are_added_to_and_taken_from(ottla: Ottla, make_topic: MakeTopic) -> None:
    make_topic("listing")
    assert ottla("configs", "alter", "--topic", "listing", "--append", "cleanup.policy=compact").code == 0
    becomes(ottla, ("--topic", "listing"), "cleanup.policy", "delete,compact")
    assert ottla("configs", "alter", "--topic", "listing", "--subtract", "cleanup.policy=delete").code == 0
    becomes(ottla, ("--topic", "listing"), "cleanup.policy", "compact")


def test_validate_only_changes_nothing(ottla: Ottla, make_topic: MakeTopic) -> None:
    make_topic("validated")
    ended = ottla("configs", "alter", "--topic", "validated", "--set", "retention.ms=1", "--validate-only")
    assert (ended.code, ended.out) == (0, "would alter topic validated: retention.ms=1\n")
    assert "retention.ms" not in entries(ottla("configs", "describe", "--topic", "validated", "--json"))


@pytest.mark.parametrize(
    ("change", "problem"), [("retention.mss=1", "did you mean retention.ms?"), ("retention.ms=soon", "soon")]
)
def test_a_refused_change_says_why(ottla: Ottla, make_topic: MakeTopic, change: str, problem: str) -> None:
    name = make_topic(f"refused-{change.replace('=', '-')}")
    ended = ottla("configs", "alter", "--topic", name, "--set", change)
    assert ended.code == 1
    assert f"altering topic {name}: INVALID_CONFIG" in ended.err
    assert problem in ended.err


def test_of_several_topics_those_that_exist_are_altered(ottla: Ottla, make_topic: MakeTopic) -> None:
    make_topic("here-1")
    ended = ottla("configs", "alter", "--topic", "here-1", "--topic", "here-2", "--set", "retention.ms=3")
    assert ended.code == 1
    assert ended.out == "altered topic here-1: retention.ms=3\n"
    assert "topic here-2: no such topic; did you mean here-1?" in ended.err


def test_a_broker_s_keys_are_described_and_altered(ottla: Ottla, make_topic: MakeTopic) -> None:
    make_topic("asked")
    broker_id = str(ottla("topics", "describe", "asked", "--json").json[0]["partitions"][0]["leader"])
    found = entries(ottla("configs", "describe", "--broker", broker_id, "--all", "--json"))
    assert found["log.dirs"]["read_only"]
    assert found["log.dirs"]["source"] == "STATIC_BROKER_CONFIG"
    ended = ottla("configs", "alter", "--broker", broker_id, "--set", "log.retention.bytes=86400001")
    assert (ended.code, ended.out) == (0, f"altered broker {broker_id}: log.retention.bytes=86400001\n")
    becomes(ottla, ("--broker", broker_id), "log.retention.bytes", "86400001", source="DYNAMIC_BROKER_CONFIG")
    assert ottla("configs", "alter", "--broker", broker_id, "--unset", "log.retention.bytes").code == 0
    refused = ottla("configs", "alter", "--broker", broker_id, "--set", "log.dirs=/elsewhere")
    assert refused.code == 1
    assert f"altering broker {broker_id}: " in refused.err


def test_the_defaults_of_all_brokers_are_altered_and_shown(ottla: Ottla) -> None:
    assert ottla("configs", "alter", "--broker-defaults", "--set", "log.retention.bytes=86400002").code == 0
    becomes(ottla, ("--broker-defaults",), "log.retention.bytes", "86400002", source="DYNAMIC_DEFAULT_BROKER_CONFIG")
    assert ottla("configs", "alter", "--broker-defaults", "--unset", "log.retention.bytes").code == 0


def test_an_unknown_broker_is_told_with_those_there_are(ottla: Ottla) -> None:
    ended = ottla("configs", "describe", "--broker", "777")
    assert ended.code == 1
    assert "broker 777: no such broker; the cluster has " in ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["describe"],
        ["describe", "--topic", "a", "--broker", "1"],
        ["alter", "--topic", "a"],
        ["alter", "--topic", "a", "--set", "k"],
        ["alter", "--topic", "a", "--set", "k=1", "--unset", "k"],
    ],
)
def test_wrong_usage_is_told_without_asking_a_broker(ottla: Ottla, arguments: list[str]) -> None:
    assert ottla("configs", *arguments, "-b", "127.0.0.1:1").code == 2
