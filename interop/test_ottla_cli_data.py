"""`ottla produce` and `ottla consume` beside the tools and clients of others, on whichever broker is under test.

With OTTLA_INTEROP_BROKER=kafka on Apache Kafka itself.
"""

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer

from interop.broker_process import BrokerProcess
from interop.conftest import CreateTopic

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def ottla(broker: BrokerProcess, *arguments: str, stdin: bytes = b"") -> bytes:
    command = [sys.executable, "-m", "ottla.cli.main", arguments[0], "-b", broker.bootstrap, *arguments[1:]]
    finished = subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False)
    assert finished.returncode == 0, finished.stderr.decode()
    return finished.stdout


def kcat(broker: BrokerProcess, *arguments: str, stdin: bytes = b"") -> bytes:
    command = shutil.which("kcat")
    if command is None:
        pytest.skip("no kcat (Debian: kcat)")
    finished = subprocess.run(
        [command, "-b", broker.bootstrap, *arguments], input=stdin, capture_output=True, timeout=60, check=False
    )
    assert finished.returncode == 0, finished.stderr.decode()
    return finished.stdout


def eventually(condition: Callable[[], bool], *, within_s: float = 40.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@pytest.mark.smoke
@pytest.mark.parametrize("codec", CODECS)
def test_kcat_and_ottla_read_what_the_other_wrote(broker: BrokerProcess, create_topic: CreateTopic, codec: str) -> None:
    topic = create_topic(f"cli-data-{codec}")
    lines = b"".join(b"k%d:line %d\n" % (number % 7, number) for number in range(300))
    ottla(broker, "produce", "-t", topic, "-K:", "-z", codec, "-H", "who=ottla", stdin=lines)
    assert kcat(broker, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-K:") == lines
    kcat(broker, "-P", "-t", topic, "-K:", "-z", codec, "-H", "who=kcat", stdin=lines)
    assert ottla(broker, "consume", "-t", topic, "-e", "-q", "-K:") == lines + lines
    formatted = ["-o", "beginning", "-e", "-q", "-f", r"%t/%p/%o %k|%K|%s|%S|%R|%h|%T\n"]
    assert ottla(broker, "consume", "-t", topic, *formatted) == kcat(broker, "-C", "-t", topic, *formatted)


@pytest.mark.smoke
def test_json_lines_are_those_of_kcat(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic = create_topic("cli-data-json")
    ottla(broker, "produce", "-t", topic, "-K:", "-Z", "-H", "a=1", "-H", "b", stdin='k:v\n:\n"quoted":ü\tx\n'.encode())
    ours = [json.loads(line) for line in ottla(broker, "consume", "-t", topic, "-e", "-q", "-J").splitlines()]
    theirs = kcat(broker, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-J")
    assert ours == [json.loads(line) for line in theirs.splitlines()]


def test_bytes_nulls_headers_and_times_pass_through_json_to_another_client(
    broker: BrokerProcess, create_topic: CreateTopic
) -> None:
    source, copy = create_topic("cli-data-source", partitions=2), create_topic("cli-data-copy", partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    sent = [
        (b"\x80\xfe", b"\xff\x00", [("h", b"\xfd"), ("n", None)], 1_600_000_000_001, 0),
        (None, None, [], 1_600_000_000_002, 1),
        (b"", b"", [("h", b"")], 1_600_000_000_003, 1),
        ("ü".encode(), b'{"a": "b\\n"}', [], 1_600_000_000_004, 0),
    ]
    for key, value, headers, timestamp_ms, partition in sent:
        producer.produce(source, value, key, partition, timestamp=timestamp_ms, headers=headers)
    assert producer.flush(30) == 0
    lines = ottla(broker, "consume", "-t", source, "-e", "-q", "-J")
    ottla(broker, "produce", "-t", copy, "-J", "-z", "lz4", stdin=lines)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    consumer.assign([TopicPartition(copy, partition, 0) for partition in range(2)])
    seen = []
    while len(seen) < len(sent):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        seen.append(
            (message.key(), message.value(), message.headers() or [], message.timestamp()[1], message.partition())
        )
    consumer.close()
    assert sorted(seen, key=lambda each: each[3]) == sent


def test_records_of_aborted_transactions_are_left_out(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    if broker.name != "kafka":
        pytest.skip("transactions are not served yet")
    topic = create_topic("cli-data-transactions")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "cli-data"})
    producer.init_transactions(30)
    for number, is_committed in enumerate([True, False, True, False, True]):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        producer.flush(30)
        (producer.commit_transaction if is_committed else producer.abort_transaction)(30)
    committed = ottla(broker, "consume", "-t", topic, "-e", "-q", "--isolation-level", "read_committed")
    assert committed.split() == [b"0", b"2", b"4"]
    assert ottla(broker, "consume", "-t", topic, "-e", "-q").split() == [b"0", b"1", b"2", b"3", b"4"]


@contextmanager
def ottla_member(broker: BrokerProcess, topic: str, group: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "ottla.cli.main", "consume", "-b", broker.bootstrap, "-t", topic, "-g", group]
    command += ["-o", "beginning", "-f", r"%p %s\n"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def test_a_group_is_shared_with_the_clients_of_others(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic, group = create_topic("cli-data-group", partitions=6), "cli-data-group"
    confluent_owns: set[int] = set()
    stop = threading.Event()
    confluent = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "partition.assignment.strategy": "range"}
    )

    def assigned(_: Consumer, places: list[TopicPartition]) -> None:
        confluent_owns.clear()
        confluent_owns.update(place.partition for place in places)

    confluent.subscribe([topic], on_assign=assigned, on_revoke=lambda *_: confluent_owns.clear())
    python = KafkaConsumer(topic, bootstrap_servers=broker.bootstrap, group_id=group)

    def poll_both() -> None:
        while not stop.is_set():
            confluent.poll(0.05)
            python.poll(50)

    def owned() -> list[set[int]]:
        return [set(confluent_owns), {place.partition for place in python.assignment()}]

    poller = threading.Thread(target=poll_both)
    poller.start()
    try:
        eventually(lambda: sorted(map(len, owned())) == [3, 3])
        with ottla_member(broker, topic, group) as member:
            assert member.stderr is not None
            assert member.stdout is not None
            line = ""
            while line.count("[") != 2:  # the first generations may have other members
                line = member.stderr.readline().decode()
                assert line, "the member ended"
            ours = {int(part.split("]")[0]) for part in line.split("[")[1:]}
            eventually(lambda: sorted(map(len, owned())) == [2, 2])
            assert ours.union(*owned()) == set(range(6))
            for partition in ours:
                ottla(broker, "produce", "-t", topic, "-p", str(partition), stdin=b"to ottla\n")
            printed = {member.stdout.readline() for _ in ours}
            assert printed == {b"%d to ottla\n" % partition for partition in ours}
            member.send_signal(signal.SIGINT)
            assert member.wait(timeout=30) == 130
        # It left: the others own all again long before a session timeout.
        eventually(lambda: sorted(map(len, owned())) == [3, 3], within_s=15)
        committed = confluent.committed([TopicPartition(topic, partition) for partition in ours], timeout=10)
        assert [place.offset for place in committed] == [1, 1]
    finally:
        stop.set()
        poller.join()
        confluent.close()
        python.close()
