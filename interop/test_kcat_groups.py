"""kcat as a member of a group (`-G`, librdkafka's consumer) against our broker."""

import re
import shutil
import subprocess
import threading
from collections.abc import Sequence

import pytest
from confluent_kafka import Producer

from interop.broker_process import BrokerProcess
from interop.conftest import CreateTopic
from interop.java_tools import eventually

PARTITIONS = 4


class KcatMember:
    """`kcat -G` in a process of its own; what it prints is read as it comes. Ended by SIGTERM, on which it leaves."""

    def __init__(self, broker: BrokerProcess, topic: str, group: str, settings: Sequence[str] = ()) -> None:
        kcat = shutil.which("kcat")
        if kcat is None:
            pytest.skip("no kcat (Debian: kcat)")
        self._command = [kcat, "-b", broker.bootstrap, "-u", "-f", r"%p %o %s\n", "-X", "auto.offset.reset=earliest"]
        self._command += [*(word for each in settings for word in ("-X", each)), "-G", group, topic]
        self.owned: set[int] = set()
        self.records: list[str] = []
        self.told: list[str] = []

    def __enter__(self) -> "KcatMember":
        self.process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for read in (self._read_records, self._read_rebalances):
            threading.Thread(target=read, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.process.terminate()
            self.process.wait(30)
        finally:
            self.process.kill()

    def _read_records(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.records.append(line.rstrip("\n"))

    def _read_rebalances(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.told.append(line)
            if " rebalanced" not in line:
                continue
            # "assigned: t [0], …" or "incremental assignment of 2 partition(s) (…): t [0], …"; the same with "revoke".
            partitions = {int(number) for number in re.findall(r"\[(\d+)\]", line)}
            is_given = re.search(r"\bassign(ed|ment)\b", line) is not None
            self.owned = self.owned | partitions if is_given else self.owned - partitions


def produce(broker: BrokerProcess, topic: str, first: int) -> set[str]:
    """Ten records to each partition; gives what kcat prints of them."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for partition in range(PARTITIONS):
        for number in range(first, first + 10):
            producer.produce(topic, f"v{number}", partition=partition)
    assert producer.flush(30) == 0
    return {f"{partition} {number} v{number}" for partition in range(PARTITIONS) for number in range(first, first + 10)}


@pytest.mark.parametrize(
    "strategy", ["range", "roundrobin", pytest.param("cooperative-sticky", marks=pytest.mark.smoke)]
)
def test_two_members_share_and_one_goes_on_alone(
    broker: BrokerProcess, create_topic: CreateTopic, strategy: str
) -> None:
    topic = group = create_topic(f"kcat-group-{strategy}", partitions=PARTITIONS)
    settings = [f"partition.assignment.strategy={strategy}", "auto.commit.interval.ms=200"]
    with KcatMember(broker, topic, group, settings) as stays:
        eventually(lambda: len(stays.owned) == PARTITIONS, what=lambda: stays.told)
        with KcatMember(broker, topic, group, settings) as leaves:
            eventually(lambda: len(stays.owned) == len(leaves.owned) == 2, what=lambda: (stays.told, leaves.told))
            assert not stays.owned & leaves.owned
            expected = produce(broker, topic, 0)
            eventually(lambda: len(stays.records + leaves.records) >= len(expected), what=lambda: stays.records)
            assert set(stays.records) | set(leaves.records) == expected
            assert len(leaves.records) == 20
        eventually(lambda: len(stays.owned) == PARTITIONS, what=lambda: stays.told)
        expected |= produce(broker, topic, 10)
        eventually(lambda: set(stays.records + leaves.records) == expected, what=lambda: stays.records)
        # It committed when it left: nothing that it had read is read again.
        assert len(stays.records) + len(leaves.records) == len(expected)


def test_static_member_comes_back_to_its_share(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic = group = create_topic("kcat-static", partitions=PARTITIONS)
    with KcatMember(broker, topic, group, ["group.instance.id=stays"]) as stays:
        eventually(lambda: len(stays.owned) == PARTITIONS, what=lambda: stays.told)
        with KcatMember(broker, topic, group, ["group.instance.id=restarts"]) as restarts:
            eventually(lambda: len(stays.owned) == len(restarts.owned) == 2, what=lambda: (stays.told, restarts.told))
        share, rebalances = set(range(PARTITIONS)) - stays.owned, len(stays.told)
        with KcatMember(broker, topic, group, ["group.instance.id=restarts"]) as restarted:
            eventually(lambda: restarted.owned == share, what=lambda: (share, restarted.told))
        assert len(stays.told) == rebalances, stays.told
