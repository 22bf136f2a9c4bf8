"""`ottla pipeline run` on the command line: what is refused in words, before Spark is started."""

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.main import main
from tests.processes import BrokerProcess

RUN = ("pipeline", "run", "--bootstrap", "127.0.0.1:1", "--once")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--store-path", "{}"), 1, "127.0.0.1:1"),
        ((), 2, "--store-path DIR"),
        (("--store-path", "{}", "--trigger", "2s"), 2, "--once processes what is there"),
        (("--store-path", "{}", "--jobs", "colect"), 2, "no job colect; did you mean collect?"),
        (("--store-path", "{}", "--jobs", ","), 2, "names none"),
        (("--store-path", "{}", "--connector", "flink"), 2, "flink"),
        (("--store-path", "{}", "--checkpoint", "s3://bucket/x"), 2, "a folder of this machine is expected"),
        (("--store-path", "{}", "--config", "{}/none.toml"), 1, "none.toml can't be read"),
        (("--store", "cassandra"), 2, "--cassandra HOST:PORT/KEYSPACE"),
        (("--store", "cassandra", "--cassandra", "127.0.0.1:1/k"), 2, "--checkpoint DIR"),
    ],
)
def test_what_can_not_be_run_is_refused_in_words(
    arguments: tuple[str, ...], code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, *(argument.format(tmp_path) for argument in arguments)]) == code
    assert words in capsys.readouterr().err


def test_a_wrong_duration_and_a_wrong_address_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store-path", str(tmp_path)]
    assert main(["pipeline", "run", "-b", "127.0.0.1:1", "--trigger", "soon", *store]) == 2
    assert "'soon' is not a duration such as 500ms, 2s or 1m" in capsys.readouterr().err
    assert main(["pipeline", "run", "-b", "nowhere", *store]) == 2
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.process
def test_a_checkpoint_of_another_version_is_refused_before_spark_is_started(
    shared_broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = tmp_path / "checkpoint" / "collect" / "ottla.json"
    about.parent.mkdir(parents=True)
    about.write_text('{"version": 99}')
    assert main(["pipeline", "run", "-b", shared_broker.address, "--once", "--store-path", str(tmp_path)]) == 1
    reported = capsys.readouterr().err
    assert f"checkpoint {about.parent} has version 99, and this Ottla writes version" in reported
    assert "give another --checkpoint" in reported
    assert about.read_text() == '{"version": 99}'


@pytest.mark.process
def test_other_commands_load_neither_spark_nor_arrow() -> None:
    program = (
        "import sys; from ottla.cli.main import main;"
        "main(['pipeline', '--help']); main(['pipeline', 'run', '--help']);"
        "sys.exit(any(name in sys.modules for name in ('pyspark', 'pyarrow', 'numpy', 'msgspec')))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "--metrics-json" in ended.stdout
