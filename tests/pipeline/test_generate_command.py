"""`ottla pipeline generate`: to files, to stdout, to topics; exit codes."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ForeignPlace

from ottla import Admin
from ottla.cli.main import main
from ottla.core.types import TopicPartition
from ottla.pipeline.topics import TOPIC_NAMES
from tests.processes import BrokerProcess

RUN = ["pipeline", "generate", "--seed", "5", "--accounts", "80", "--days", "1"]


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_file_gets_lines_and_the_truth_its_totals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, truth = tmp_path / "events.jsonl", tmp_path / "truth.json"
    assert main([*RUN, "--hardness", "hard", "--out", str(out), "--truth", str(truth)]) == 0
    lines = lines_of(out)
    document = json.loads(truth.read_text(encoding="utf-8"))
    counted = Counter(line["topic"] for line in lines)
    assert {topic: count for topic, count in document["events"].items() if count} == counted
    assert document["settings"]["hardness"] == "hard"
    assert set(lines[0]) == {"topic", "key", "value"}
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{len(lines):,} events written" in printed.err


def test_stdout_has_the_same_lines_as_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "events.jsonl"
    assert main([*RUN, "--out", str(out)]) == 0
    capsys.readouterr()
    assert main([*RUN, "--out", "-"]) == 0
    assert capsys.readouterr().out == out.read_text(encoding="utf-8")


def test_noise_is_counted_in_the_truth(tmp_path: Path) -> None:
    out, truth = tmp_path / "events.jsonl", tmp_path / "truth.json"
    arguments = ["--duplicates", "0.1", "--late", "0.05", "--bad", "0.1", "--out", str(out), "--truth", str(truth)]
    assert main([*RUN, *arguments]) == 0
    document = json.loads(truth.read_text(encoding="utf-8"))
    noise = document["noise"]
    added = noise["duplicates"] + sum(noise["bad"].values())
    assert added > 0
    assert len(lines_of(out)) == sum(document["events"].values()) + added


@pytest.mark.parametrize(
    "arguments",
    [[], ["--out", "-", "--bootstrap", "127.0.0.1:1"], ["--bootstrap", "nonsense"], ["--out", "-", "--accounts", "0"]],
)
def test_wrong_usage_is_two(arguments: list[str]) -> None:
    assert main([*RUN, *arguments]) == 2


def test_a_file_that_can_not_be_written_is_one(tmp_path: Path) -> None:
    assert main([*RUN, "--out", str(tmp_path / "missing" / "events.jsonl")]) == 1


@pytest.mark.process
def test_a_reader_that_has_seen_enough_is_no_traceback() -> None:
    command = [sys.executable, "-m", "ottla.cli.main", *RUN, "--accounts", "300", "--out", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.process
def test_topics_are_created_and_hold_all_events(shared_broker: BrokerProcess, tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    assert main([*RUN, "--bootstrap", shared_broker.address, "--truth", str(truth), "--partitions", "3"]) == 0
    expected = json.loads(truth.read_text(encoding="utf-8"))["events"]
    topic_partitions = [TopicPartition(topic, partition) for topic in TOPIC_NAMES for partition in range(3)]
    with Admin(bootstrap_servers=shared_broker.address) as admin:
        ends = admin.list_offsets(topic_partitions, Admin.LATEST)
    counts = {topic: sum(ends[TopicPartition(topic, each)].offset for each in range(3)) for topic in TOPIC_NAMES}
    assert counts == expected
    consumer = Consumer({"bootstrap.servers": shared_broker.address, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([ForeignPlace("ml_login_log", partition, 0) for partition in range(3)])
    messages = consumer.consume(expected["ml_login_log"], timeout=20)
    consumer.close()
    assert len(messages) == expected["ml_login_log"]
    for message in messages:
        assert json.loads(message.value())["device_id"].encode() == message.key()


def test_a_cluster_that_is_not_there_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--bootstrap", "127.0.0.1:1"]) == 1
    assert "127.0.0.1:1: not reached" in capsys.readouterr().err
