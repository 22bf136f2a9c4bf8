"""Files on disk: Kafka's dump tool judges ours, and `ottla dump-log` reads Kafka's."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from interop.broker_process import BrokerProcess
from interop.conftest import new_broker
from interop.kafka_peer import KafkaPeer, run_tool

pytestmark = pytest.mark.usefixtures("kafka_tools")

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS = 3000
# Small segments and a dense index, so that there are several of each to judge.
TOPIC_CONFIG = {"segment.bytes": str(1024 * 1024), "index.interval.bytes": "4096"}


def value_of(codec: str, number: int) -> str:
    # Hex of a spread number: text that stays about as long after compression, so that every codec fills segments.
    words = [f"{(number * 1000003 + word * 7919) * 2654435761 % 2**64:016x}" for word in range(64)]
    return f"{codec}-{number}-{''.join(words)}"


def write_topics(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topics = [NewTopic(f"dump-{codec}", 1, 1, config=TOPIC_CONFIG) for codec in CODECS]
    for future in admin.create_topics(topics).values():
        future.result(timeout=30)
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "compression.type": codec,
                "enable.idempotence": codec == "lz4",
                "batch.num.messages": 50,
            }
        )
        for number in range(RECORDS):
            producer.produce(f"dump-{codec}", value_of(codec, number), str(number), headers={"n": str(number)})
            if number % 500 == 0:
                producer.flush(30)
        assert producer.flush(30) == 0


def data_of(broker_type: type[BrokerProcess] | None, folder: Path) -> Path:
    data_dir = folder / "data"
    broker = new_broker(data_dir) if broker_type is None else broker_type(data_dir)
    with broker:
        write_topics(broker)
    return data_dir


@pytest.fixture(scope="module")
def our_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_of(None, tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def kafka_data(kafka_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_of(KafkaPeer, tmp_path_factory.mktemp("kafka"))


def files_of(data_dir: Path, codec: str, suffix: str) -> list[Path]:
    found = sorted((data_dir / f"dump-{codec}-0").glob(f"*{suffix}"))
    assert found, f"dump-{codec}-0 has no {suffix} files"
    return found


def kafka_dump(files: list[Path], *arguments: str) -> str:
    joined = ",".join(str(file) for file in files)
    return run_tool("org.apache.kafka.tools.DumpLogSegments", ["--files", joined, *arguments]).stdout


@pytest.mark.parametrize("codec", [pytest.param(codec, marks=pytest.mark.smoke) for codec in CODECS])
def test_kafka_reads_our_segments(our_data: Path, codec: str) -> None:
    segments = files_of(our_data, codec, ".log")
    assert len(segments) > 1, "the log did not roll: segment.bytes has no effect"
    printed = kafka_dump(segments, "--deep-iteration", "--print-data-log")
    batches = re.findall(r"^baseOffset: .*compresscodec: (\w+) .*isvalid: (\w+)$", printed, re.MULTILINE)
    assert set(batches) == {(codec, "true")}
    records = re.findall(r"\| offset: (\d+) .*headerKeys: \[n\] key: (\d+) payload: (\S+)$", printed, re.MULTILINE)
    expected = [(str(number), str(number), value_of(codec, number)) for number in range(RECORDS)]
    assert records == expected
    assert "not a valid" not in printed
    assert "Found non-consecutive" not in printed


@pytest.mark.smoke
def test_kafka_verifies_our_offset_and_time_indexes(our_data: Path) -> None:
    for codec in CODECS:
        indexes = files_of(our_data, codec, ".index") + files_of(our_data, codec, ".timeindex")
        checked = kafka_dump(indexes, "--index-sanity-check")
        assert checked.count("passed sanity check") == len(indexes), checked
        verified = kafka_dump(indexes, "--verify-index-only")
        assert not re.search("mismatch|out of order|not found|non-consecutive", verified, re.IGNORECASE), verified


def test_kafka_reads_our_producer_snapshots(our_data: Path) -> None:
    snapshots = [file for file in files_of(our_data, "lz4", ".snapshot") if file.stat().st_size]
    printed = kafka_dump(snapshots)
    assert re.search(r"producerId: \d+ producerEpoch: 0 ", printed), printed


def ottla_dump(files: list[Path]) -> list[dict[str, object]]:
    command = [
        sys.executable,
        "-m",
        "ottla.cli.main",
        "dump-log",
        "--print-data-log",
        "--json",
        *(str(file) for file in files),
    ]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert finished.returncode == 0, finished.stderr
    return [json.loads(line) for line in finished.stdout.splitlines() if line]


@pytest.mark.parametrize("codec", CODECS)
def test_ottla_dump_log_reads_kafkas_segments(kafka_data: Path, codec: str) -> None:
    rows = ottla_dump(files_of(kafka_data, codec, ".log"))
    assert {row["compresscodec"] for row in rows if row["kind"] == "batch"} == {codec}
    records = [(row["offset"], row["key"], row["payload"]) for row in rows if row["kind"] == "record"]
    assert records == [(number, str(number), value_of(codec, number)) for number in range(RECORDS)]
    assert not [row for row in rows if row["kind"] == "problem"]


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot"])
def test_ottla_dump_log_reads_kafkas_other_files(kafka_data: Path, suffix: str) -> None:
    files = [file for file in files_of(kafka_data, "lz4", suffix) if file.stat().st_size]
    assert ottla_dump(files)
