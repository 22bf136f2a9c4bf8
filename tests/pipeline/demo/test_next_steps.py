"""Commands to copy: they name what is installed, from where the caller is, quoted."""

import shlex
import sys
from pathlib import Path

import pytest

from ottla.pipeline.demo.next_steps import as_typed, next_commands, ottla_path, watch_command
from ottla.pipeline.demo.observing import SeenAlert

ALERTS = [SeenAlert("a1", "invite_fraud", "one"), SeenAlert("a2", "invite_fraud", "one; two")]


def test_folders_with_spaces_and_quotes_are_quoted() -> None:
    commands = next_commands(Path("/tmp/it's a run"), topic="ml_login_log.dlq", alerts=ALERTS, has_score=True)
    words = [shlex.split(command) for command in commands]
    assert all(each[0] == ottla_path() for each in words)
    assert [each[1:3] for each in words[:3]] == [
        ["pipeline", "explain"],
        ["pipeline", "score"],
        ["pipeline", "reconcile"],
    ]
    assert words[0][3:] == ["a2", "--store-path", "/tmp/it's a run/store"]
    assert words[3][1:] == ["serve", "--data-dir", "/tmp/it's a run/broker"]
    assert words[4][1:4] == ["consume", "-t", "ml_login_log.dlq"]
    assert len(commands) <= 5


def test_a_run_without_alerts_and_score_has_commands_too() -> None:
    commands = next_commands(Path("/tmp/run"), topic="ml_login_log", alerts=[], has_score=False)
    assert [shlex.split(each)[1:3] for each in commands[:2]] == [["pipeline", "show"], ["pipeline", "reconcile"]]


def test_ottla_is_the_one_beside_our_python() -> None:
    assert Path(ottla_path()).resolve() == Path(sys.executable).with_name("ottla").resolve()
    assert watch_command("127.0.0.1:1", "t").startswith(f"{shlex.quote(ottla_path())} consume -b 127.0.0.1:1 -t t")


def test_paths_are_relative_only_where_the_shell_of_the_caller_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert as_typed(Path("data/run"), {"PWD": str(tmp_path)}) == "data/run"
    assert as_typed(tmp_path / "data", {"PWD": str(tmp_path)}) == "data"
    assert as_typed(Path("data/run"), {"PWD": "/"}) == f"{tmp_path}/data/run"
    assert as_typed(Path("data/run"), {}) == "data/run"
    assert as_typed(Path("/elsewhere"), {}) == "/elsewhere"
