"""`ottla pipeline redrive`, `export` and `replay`: what they refuse, and what they say, before Spark is needed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla import Admin, NewTopic, Producer
from ottla.cli.main import main
from ottla.pipeline.topics import LOGIN
from tests.processes import BrokerProcess

pytestmark = pytest.mark.process

Pipeline = Callable[..., tuple[int, str, str]]


@pytest.fixture
def pipeline(shared_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> Pipeline:
    def run(command: str, *arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["pipeline", command, "-b", shared_broker.address, *arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture(scope="module", autouse=True)
def letter(shared_broker: BrokerProcess) -> None:
    """One dead letter of the logins."""
    with Admin(bootstrap_servers=shared_broker.address) as admin:
        admin.create_topics([NewTopic(LOGIN.name, 1), NewTopic(f"{LOGIN.name}.dlq", 1)])
    headers = {"origin_topic": LOGIN.name, "origin_partition": "0", "origin_offset": "0"}
    headers |= {"error_class": "future", "error_reason": "event_time lies ahead"}
    with Producer(bootstrap_servers=shared_broker.address) as producer:
        pairs = [(name, text.encode()) for name, text in headers.items()]
        producer.send(f"{LOGIN.name}.dlq", b"{}", key=b"d", headers=pairs).result()


def test_redrive_shows_what_it_would_do(pipeline: Pipeline) -> None:
    code, out, err = pipeline("redrive")
    assert (code, out.splitlines()[1].split()[:3]) == (0, [LOGIN.name, "future", "1"])
    assert "--execute" in err

    shown = json.loads(pipeline("redrive", "--json")[1])
    assert (shown["sent"], shown["letters"], shown["by_class"][0]["reasons"]) == (False, 1, ["event_time lies ahead"])
    assert json.loads(pipeline("redrive", "--error-class", "not_json,negative", "--json")[1])["letters"] == 0
    assert json.loads(pipeline("redrive", "--until", "2020-01-01", "--json")[1])["letters"] == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("redrive", "--error-class", "futur"), "did you mean future"),
        (("redrive", "--topics", "ml_login"), "did you mean ml_login_log"),
        (("redrive", "--since", "yesterday"), "is not a time"),
        (("export", "out", "--first-day", "monday"), "is not a day"),
        (("export", "out", "--start", "sometime"), "expected earliest, latest, a time"),
        (("export", "out", "--start", '{"ml_login_log": {"7": 1}}'), "ml_login_log-7"),
        (("export", "out", "--start", '{"ml_login_log": 7}'), "offsets are written as"),
        (("replay",), "--store-path"),
        (("replay", "--store-path", "tables", "--jobs", "colect"), "did you mean collect"),
        (("replay", "--store-path", "tables", "--name", "../tables"), "a name has lower-case letters"),
    ],
)
def test_what_can_not_be_meant_is_wrong_usage(
    pipeline: Pipeline,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = pipeline(*arguments)

    assert code == 2
    assert complaint in err
    assert list(tmp_path.iterdir()) == []


def test_an_export_with_nothing_to_do_needs_no_spark(pipeline: Pipeline, tmp_path: Path) -> None:
    code, out, _ = pipeline("export", str(tmp_path / "out"), "--json")

    assert code == 0
    assert json.loads(out)["read"] == 0


def test_a_broker_that_is_not_there_is_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "export", str(tmp_path / "out"), "-b", "127.0.0.1:1"]) == 1
    assert "no broker was reached" in capsys.readouterr().err
    assert main(["pipeline", "redrive", "-b", "127.0.0.1:1"]) == 1
    assert "127.0.0.1:1" in capsys.readouterr().err
