"""`ottla topics` against a broker."""

from typing import Any

import pytest

from tests.cli.conftest import MakeTopic, Ottla
from tests.processes import eventually

pytestmark = pytest.mark.process


def test_a_topic_is_created_with_its_partitions_and_configuration(ottla: Ottla) -> None:
    ended = ottla(
        "topics", "create", "made", "--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=1234"
    )  # fmt: skip
    assert (ended.code, ended.out) == (0, "created topic made: 3 partitions, replication factor 1\n")
    eventually(lambda: ottla("topics", "describe", "made").code == 0)
    (made,) = ottla("topics", "describe", "made", "--json").json
    assert [part["partition"] for part in made["partitions"]] == [0, 1, 2]
    assert made["configs"]["retention.ms"] == {"value": "1234", "source": "DYNAMIC_TOPIC_CONFIG"}
    assert len(made["id"]) == 22
    assert all(part["replicas"] == part["isr"] == [part["leader"]] for part in made["partitions"])


def test_an_existing_topic_is_refused_unless_told_otherwise(ottla: Ottla, make_topic: MakeTopic) -> None:
    make_topic("existing")
    refused = ottla("topics", "create", "existing")
    assert refused.code == 1
    assert "creating topic existing: TOPIC_ALREADY_EXISTS" in refused.err
    assert "--if-not-exists" in refused.err
    assert ottla("topics", "create", "existing", "--if-not-exists").code == 0


def test_of_several_topics_the_good_ones_are_created_and_the_exit_code_tells_of_the_others(ottla: Ottla) -> None:
    ended = ottla("topics", "create", "several-a", "no/slash", "several-b", "--json")
    assert ended.code == 1
    assert [topic["name"] for topic in ended.json] == ["several-a", "several-b"]
    assert "no/slash: INVALID_TOPIC_EXCEPTION" in ended.err


def test_validate_only_creates_nothing(ottla: Ottla) -> None:
    ended = ottla("topics", "create", "imagined", "--partitions", "2", "--validate-only")
    assert (ended.code, ended.out) == (0, "would create topic imagined: 2 partitions, replication factor 1\n")
    assert "imagined" not in ottla("topics", "list").out.split()


def test_replicas_are_placed_as_told(ottla: Ottla, make_topic: MakeTopic) -> None:
    make_topic("any")
    broker_id = ottla("topics", "describe", "any", "--json").json[0]["partitions"][0]["leader"]
    placed = ottla("topics", "create", "placed", "--replica-assignment", f"{broker_id},{broker_id}")
    assert placed.code == 0
    assert "2 partitions" in placed.out
    unknown = ottla("topics", "create", "misplaced", "--replica-assignment", "777")
    assert unknown.code == 1
    assert "creating topic misplaced: INVALID_REPLICA_ASSIGNMENT" in unknown.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--replica-assignment", "1:x"], "expected broker ids"),
        (["--replica-assignment", "1:1"], "names a broker twice"),
        (["--replica-assignment", "1:2,1"], "same number of replicas"),
        (["--replica-assignment", "1", "--partitions", "2"], "not both"),
        (["--config", "retention.ms"], "expected KEY=VALUE"),
        (["--config", "a=1", "--config", "a=2"], "given twice"),
        (["--partitions", "0"], "0"),
    ],
)
def test_wrong_usage_of_create_is_told_without_asking_a_broker(
    ottla: Ottla, arguments: list[str], problem: str
) -> None:
    ended = ottla("topics", "create", "x", *arguments, "-b", "127.0.0.1:1")
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err


def test_an_unknown_key_is_refused_with_the_nearest_one(ottla: Ottla) -> None:
    ended = ottla("topics", "create", "mistyped", "--config", "retention.mss=1")
    assert ended.code == 1
    assert "retention.mss" in ended.err
    assert "did you mean retention.ms?" in ended.err


def test_too_many_replicas_are_refused(ottla: Ottla) -> None:
    ended = ottla("topics", "create", "too-safe", "--replication-factor", "3")
    assert ended.code == 1
    assert "INVALID_REPLICATION_FACTOR" in ended.err


def test_a_list_in_a_pipe_is_names_alone(ottla: Ottla, make_topic: MakeTopic) -> None:
    make_topic("listed-b")
    make_topic("listed-a")
    names = ottla("topics", "list").out.splitlines()
    assert names == sorted(names)
    assert {"listed-a", "listed-b"} <= set(names)
    listed = {topic["name"]: topic for topic in ottla("topics", "list", "--json", "--exclude-internal").json}
    assert listed["listed-a"]["partitions"] == 1
    assert not any(topic["internal"] for topic in listed.values())


def test_describe_shows_patterns_whole_and_names_what_is_missing(ottla: Ottla, make_topic: MakeTopic) -> None:
    long_name = "shown-" + "x" * 200
    make_topic("shown-short", partitions=2)
    make_topic(long_name)
    ended = ottla("topics", "describe", "shown-*", "shown-shorts")
    assert ended.code == 1
    assert "topic shown-shorts: no such topic; did you mean shown-short?" in ended.err
    rows = ended.rows
    assert rows[0][:2] == ["TOPIC", "ID"]
    assert [row[:2] for row in rows if row and row[0] == "shown-short"][1:] == [
        ["shown-short", "0"],
        ["shown-short", "1"],
    ]
    assert any(row and row[0] == long_name for row in rows)
    assert "\x1b" not in ended.out


def test_describe_shows_only_the_partitions_in_trouble(ottla: Ottla, make_topic: MakeTopic) -> None:
    make_topic("healthy")
    for troubles in (["--under-replicated"], ["--unavailable", "--under-min-isr"]):
        ended = ottla("topics", "describe", "healthy", *troubles, "--json")
        assert (ended.code, ended.json) == (0, [])
    at_the_limit = ottla("topics", "describe", "healthy", "--at-min-isr-partitions", "--json")
    assert [topic["name"] for topic in at_the_limit.json] == ["healthy"]


def test_describe_finds_topics_with_overrides(ottla: Ottla, make_topic: MakeTopic) -> None:
    make_topic("plain-one")
    assert ottla("topics", "create", "special-one", "--config", "retention.ms=5").code == 0
    eventually(lambda: ottla("topics", "describe", "special-one").code == 0)
    names = [topic["name"] for topic in ottla("topics", "describe", "--topics-with-overrides", "--json").json]
    assert "special-one" in names
    assert "plain-one" not in names


def test_alter_adds_partitions_and_changes_configuration(ottla: Ottla, make_topic: MakeTopic) -> None:
    make_topic("growing")
    ended = ottla("topics", "alter", "growing", "--partitions", "4", "--config", "retention.ms=77")
    assert (ended.code, ended.out) == (0, "altered topic growing: 4 partitions, retention.ms=77\n")

    def growing() -> Any:
        return ottla("topics", "describe", "growing", "--json").json[0]

    # On Kafka a change needs a moment from the controller to the brokers.
    eventually(lambda: len(growing()["partitions"]) == 4 and "retention.ms" in growing()["configs"])
    assert growing()["configs"]["retention.ms"]["value"] == "77"
    assert ottla("topics", "alter", "growing", "--delete-config", "retention.ms").code == 0
    eventually(lambda: "retention.ms" not in growing()["configs"])


def test_alter_does_nothing_unless_all_of_it_can_be_done(ottla: Ottla, make_topic: MakeTopic) -> None:
    make_topic("whole-or-not", partitions=2)
    ended = ottla("topics", "alter", "whole-or-not", "--partitions", "3", "--config", "no.such.key=1")
    assert ended.code == 1
    assert "no.such.key" in ended.err
    assert ottla("topics", "alter", "whole-or-not", "--partitions", "1").code == 1
    assert ottla("topics", "alter", "whole-or-not", "--partitions", "3", "--validate-only").code == 0
    (topic,) = ottla("topics", "describe", "whole-or-not", "--json").json
    assert len(topic["partitions"]) == 2


@pytest.mark.parametrize("arguments", [[], ["--config", "a=1", "--delete-config", "a"]])
def test_alter_without_a_clear_change_is_wrong_usage(ottla: Ottla, arguments: list[str]) -> None:
    assert ottla("topics", "alter", "x", *arguments).code == 2


def test_delete_shows_what_would_go_and_deletes_only_when_told(ottla: Ottla, make_topic: MakeTopic) -> None:
    make_topic("doomed-a", partitions=2, records=5)
    make_topic("doomed-b")
    shown = ottla("topics", "delete", "doomed-*")
    assert shown.code == 0
    assert ["doomed-a", "2", "10"] in [row[:3] for row in shown.rows]
    assert "--execute" in shown.err
    assert {"doomed-a", "doomed-b"} <= set(ottla("topics", "list").out.split())
    ended = ottla("topics", "delete", "doomed-*", "--execute", "--json")
    assert [(topic["name"], topic["deleted"]) for topic in ended.json] == [("doomed-a", True), ("doomed-b", True)]
    eventually(lambda: not {"doomed-a", "doomed-b"} & set(ottla("topics", "list").out.split()))


def test_deleting_what_is_not_there_fails_unless_told_otherwise(ottla: Ottla, make_topic: MakeTopic) -> None:
    make_topic("present")
    ended = ottla("topics", "delete", "presents", "absent-*", "--execute")
    assert ended.code == 1
    assert "topic presents: no such topic; did you mean present?" in ended.err
    assert "absent-*: nothing matches" in ended.err
    assert ottla("topics", "delete", "presents", "--execute", "--if-exists").code == 0


def test_an_unreachable_broker_is_named_with_what_to_do(ottla: Ottla) -> None:
    ended = ottla("topics", "list", "-b", "127.0.0.1:1")
    assert (ended.code, ended.out) == (1, "")
    assert "no broker was reached at 127.0.0.1:1: Connection refused" in ended.err
    assert "-b HOST:PORT" in ended.err


def test_a_malformed_address_is_wrong_usage(ottla: Ottla) -> None:
    ended = ottla("topics", "list", "-b", "localhost")
    assert ended.code == 2
    assert "'localhost' is not host:port" in ended.err
