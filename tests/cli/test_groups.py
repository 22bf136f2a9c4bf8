"""`ottla groups` against a broker; a foreign consumer is the member where one is needed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.cli.conftest import MakeTopic, Ottla
from tests.processes import eventually

pytestmark = pytest.mark.process


def offsets_of(ottla: Ottla, group: str) -> dict[int, int]:
    """What a group has committed, by partition."""
    (described,) = ottla("groups", "describe", group, "--json").json
    return {part["partition"]: part["current_offset"] for part in described["partitions"]}


def set_offsets(ottla: Ottla, group: str, topic: str, *where: str) -> None:
    ended = ottla("groups", "reset-offsets", group, "--topic", topic, *where, "--execute")
    assert ended.code == 0, ended.err


@contextmanager
def one_member(bootstrap: str, group: str, topic: str) -> Iterator[None]:
    """A consumer that has its partitions, and leaves in the end."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "member", "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        eventually(lambda: consumer.poll(0.1) is not None and len(consumer.assignment()) > 0)
        consumer.commit(asynchronous=False)
        yield
    finally:
        consumer.close()


def test_a_plan_is_shown_and_carried_out_only_when_told(ottla: Ottla, make_topic: MakeTopic) -> None:
    topic = make_topic("planned", partitions=2, records=10)
    shown = ottla("groups", "reset-offsets", "planning", "--topic", topic, "--to-latest")
    assert shown.code == 0
    assert ["planning", topic, "1", "-", "10", "-"] in shown.rows
    assert "--execute" in shown.err
    assert "planning" not in ottla("groups", "list").out.split()
    set_offsets(ottla, "planning", topic, "--to-latest")
    assert offsets_of(ottla, "planning") == {0: 10, 1: 10}
    assert "planning" in ottla("groups", "list").out.split()


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 10),
        (["--to-offset", "7"], 7),
        (["--to-offset", "700"], 10),
        (["--to-current"], 4),
        (["--shift-by", "3"], 7),
        (["--shift-by", "-30"], 0),
        (["--to-datetime", "2023-11-14T22:13:23.000"], 3),
        (["--to-datetime", "2023-11-15T00:13:23.500+02:00"], 4),
        (["--to-datetime", "2033-01-01"], 10),
        (["--by-duration", "PT1S"], 10),
        (["--by-duration", "P36500D"], 0),
    ],
)
def test_offsets_go_where_the_scenario_says(
    ottla: Ottla, make_topic: MakeTopic, request: pytest.FixtureRequest, where: list[str], expected: int
) -> None:
    topic = make_topic(f"scenario-{request.node.callspec.indices['where']}", records=10)
    group = f"group-{topic}"
    set_offsets(ottla, group, topic, "--to-offset", "4")
    ended = ottla("groups", "reset-offsets", group, "--all-topics", *where, "--execute", "--json")
    (move,) = ended.json
    assert (move["current_offset"], move["new_offset"], move["executed"]) == (4, expected, True)
    assert offsets_of(ottla, group) == {0: expected}


def test_an_exported_plan_is_read_back(ottla: Ottla, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic("exported", partitions=3, records=5)
    set_offsets(ottla, "exporting", f"{topic}:0,2", "--to-offset", "2")
    plan = str(tmp_path / "plan.csv")
    assert ottla("groups", "reset-offsets", "exporting", "--all-topics", "--to-current", "--export", plan).code == 0
    assert Path(plan).read_text() == "exported,0,2\nexported,2,2\n"
    set_offsets(ottla, "exporting", topic, "--to-latest")
    assert ottla("groups", "reset-offsets", "exporting", "--from-file", plan, "--execute").code == 0
    assert offsets_of(ottla, "exporting") == {0: 2, 1: 5, 2: 2}
    to_stdout = ottla("groups", "reset-offsets", "exporting", "--all-topics", "--to-earliest", "--export", "-")
    assert to_stdout.out == "exported,0,0\nexported,1,0\nexported,2,0\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--topic", "t"], "say where to"),
        (["--to-latest", "--to-earliest", "--topic", "t"], "use only one of these"),
        (["--to-latest"], "say which offsets"),
        (["--to-latest", "--topic", "t", "--all-topics"], "say which offsets"),
        (["--to-datetime", "yesterday", "--topic", "t"], "yesterday: expected a time"),
        (["--by-duration", "7d", "--topic", "t"], "7d: expected a duration"),
        (["--to-latest", "--topic", "t:x"], "expected TOPIC or TOPIC:0,1,2"),
    ],
)
def test_wrong_usage_of_reset_is_told_without_asking_a_broker(ottla: Ottla, arguments: list[str], problem: str) -> None:
    ended = ottla("groups", "reset-offsets", "g", *arguments, "-b", "127.0.0.1:1")
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err


def test_what_a_reset_names_must_exist(ottla: Ottla, make_topic: MakeTopic) -> None:
    topic = make_topic("resettable", partitions=2)
    reset = ("groups", "reset-offsets", "nobody", "--to-latest")
    assert "topic resetable: no such topic; did you mean resettable?" in ottla(*reset, "--topic", "resetable").err
    assert "has partitions 0 to 1, not 2" in ottla(*reset, "--topic", f"{topic}:2").err
    assert "group nobody: no such group" in ottla(*reset, "--all-topics").err
    shifted = ottla("groups", "reset-offsets", "nobody", "--shift-by", "1", "--topic", topic)
    assert shifted.code == 1
    assert "resettable-0 has none" in shifted.err


def test_describe_shows_the_lag_of_each_partition_and_its_total(ottla: Ottla, make_topic: MakeTopic) -> None:
    topic = make_topic("lagging", partitions=2, records=10)
    set_offsets(ottla, "behind", f"{topic}:0", "--to-offset", "3")
    set_offsets(ottla, "behind", f"{topic}:1", "--to-offset", "9")
    shown = ottla("groups", "describe", "behind")
    assert ["behind", topic, "0", "3", "10", "7", "-", "-", "-"] in shown.rows
    assert ["behind", "Empty", "0", "2", "8"] in shown.rows
    (described,) = ottla("groups", "describe", "behind", "--json").json
    assert described["total_lag"] == 8
    assert [part["lag"] for part in described["partitions"]] == [7, 1]


def test_describe_of_an_unknown_group_fails_with_the_nearest_name(ottla: Ottla, make_topic: MakeTopic) -> None:
    set_offsets(ottla, "well-known", make_topic("known", records=1), "--to-latest")
    ended = ottla("groups", "describe", "well-known", "wel-known", "--state")
    assert ended.code == 1
    assert "group wel-known: no such group; did you mean well-known?" in ended.err
    assert any(row[0] == "well-known" and "Empty" in row for row in ended.rows)


def test_a_group_with_a_member_is_described_but_neither_reset_nor_deleted(
    ottla: Ottla, make_topic: MakeTopic, bootstrap: str
) -> None:
    topic = make_topic("read-now", partitions=2, records=3)
    with one_member(bootstrap, "reading", topic):
        (described,) = ottla("groups", "describe", "reading", "--json").json
        assert (described["state"], described["member_count"]) == ("Stable", 1)
        assert {(part["client_id"], part["host"]) for part in described["partitions"]} == {("member", "127.0.0.1")}
        (with_members,) = ottla("groups", "describe", "reading", "--members", "--json").json
        (member,) = with_members["members"]
        assert [topic_partition["partition"] for topic_partition in member["assignment"]] == [0, 1]
        assert "read-now(0,1)" in ottla("groups", "describe", "reading", "--members").out
        assert [group["group"] for group in ottla("groups", "list", "--state", "stable", "--json").json] == ["reading"]
        refused = ottla("groups", "reset-offsets", "reading", "--all-topics", "--to-earliest", "--execute")
        assert refused.code == 1
        assert "group reading is Stable with 1 member; offsets can be reset only while it has no members" in refused.err
        assert "can't be deleted; stop its members first" in ottla("groups", "delete", "reading", "--execute").err
        kept = ottla("groups", "delete-offsets", "reading", "--topic", topic, "--execute")
        assert kept.code == 1
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in kept.err
    eventually(lambda: ottla("groups", "describe", "reading", "--json").json[0]["state"] == "Empty")
    assert ottla("groups", "delete", "reading", "--execute").code == 0


def test_offsets_of_a_topic_are_forgotten_only_when_told(ottla: Ottla, make_topic: MakeTopic) -> None:
    topic = make_topic("forgotten", partitions=2, records=2)
    set_offsets(ottla, "forgetful", topic, "--to-latest")
    shown = ottla("groups", "delete-offsets", "forgetful", "--topic", f"{topic}:1")
    assert ["forgetful", topic, "1", "2"] in shown.rows
    assert "--execute" in shown.err
    assert offsets_of(ottla, "forgetful") == {0: 2, 1: 2}
    assert ottla("groups", "delete-offsets", "forgetful", "--topic", f"{topic}:1", "--execute").code == 0
    assert offsets_of(ottla, "forgetful") == {0: 2}
    missing = ottla("groups", "delete-offsets", "forgetful", "--topic", "forgoten", "--execute")
    assert missing.code == 1
    assert "no offset for topic forgoten; did you mean forgotten?" in missing.err


def test_groups_are_deleted_only_when_told(ottla: Ottla, make_topic: MakeTopic) -> None:
    topic = make_topic("left", records=1)
    for group in ("gone-1", "gone-2"):
        set_offsets(ottla, group, topic, "--to-latest")
    shown = ottla("groups", "delete", "gone-*")
    assert ["gone-1", "Empty", "1"] in shown.rows
    assert "--execute" in shown.err
    ended = ottla("groups", "delete", "gone-*", "gone-3", "--execute", "--json")
    assert ended.code == 1
    assert [group["group"] for group in ended.json] == ["gone-1", "gone-2"]
    assert "group gone-3: no such group" in ended.err
    assert not {"gone-1", "gone-2"} & set(ottla("groups", "list").out.split())


def test_a_commit_for_a_topic_that_is_gone_is_still_shown(ottla: Ottla, make_topic: MakeTopic) -> None:
    set_offsets(ottla, "survivor", make_topic("outlived", records=2), "--to-latest")
    set_offsets(ottla, "survivor", make_topic("outliving", records=2), "--to-latest")
    assert ottla("topics", "delete", "outlived", "--execute").code == 0
    (described,) = ottla("groups", "describe", "survivor", "--json").json
    ends = {part["topic"]: part["log_end_offset"] for part in described["partitions"]}
    assert ends.get("outlived") is None  # a broker may also forget the commit with the topic
    assert ends["outliving"] == 2
