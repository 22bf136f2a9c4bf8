"""kcat (an older librdkafka, in C) against our broker."""

import json
import shutil
import subprocess

import pytest

from interop.broker_process import BrokerProcess
from interop.conftest import CreateTopic

LINES = [f"line {number}" for number in range(500)]


def kcat(broker: BrokerProcess, *arguments: str, stdin: str = "") -> str:
    command = shutil.which("kcat")
    if command is None:
        pytest.skip("no kcat (Debian: kcat)")
    finished = subprocess.run(
        [command, "-b", broker.bootstrap, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.smoke
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_round_trip(broker: BrokerProcess, create_topic: CreateTopic, codec: str) -> None:
    topic = create_topic(f"kcat-{codec}")
    kcat(broker, "-P", "-t", topic, "-p", "0", "-z", codec, stdin="".join(f"{line}\n" for line in LINES))
    assert kcat(broker, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q").splitlines() == LINES
    assert kcat(broker, "-C", "-t", topic, "-p", "0", "-o", "-10", "-e", "-q").splitlines() == LINES[-10:]


@pytest.mark.smoke
def test_kcat_lists_brokers_and_topics(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic = create_topic("kcat-listed", partitions=3)
    listed = json.loads(kcat(broker, "-L", "-J", "-t", topic))
    assert [each["name"] for each in listed["brokers"]] == [broker.bootstrap]
    (described,) = listed["topics"]
    assert (described["topic"], len(described["partitions"])) == (topic, 3)


def test_kcat_keys_headers_and_tombstones(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic = create_topic("kcat-keys")
    kcat(broker, "-P", "-t", topic, "-p", "0", "-K:", "-Z", "-H", "h=1", stdin="a:one\nb:\n")
    printed = kcat(broker, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-J")
    records = [json.loads(line) for line in printed.splitlines()]
    assert [(each["key"], each["payload"], each["headers"]) for each in records] == [
        ("a", "one", ["h", "1"]),
        ("b", None, ["h", "1"]),
    ]


def test_kcat_queries_offsets_by_time(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic = create_topic("kcat-times")
    kcat(broker, "-P", "-t", topic, "-p", "0", stdin="one\ntwo\n")
    assert kcat(broker, "-Q", "-t", f"{topic}:0:0").strip() == f"{topic} [0] offset 0"
    assert kcat(broker, "-Q", "-t", f"{topic}:0:-1").strip() == f"{topic} [0] offset 2"
