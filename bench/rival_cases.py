"""Our Python clients beside confluent-kafka, aiokafka and kafka-python: speed, memory, import, a broker in a test."""

import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.clients.job import Job
from bench.model import OURS, THEIRS
from bench.peers import Peer
from bench.races import Race, Rival, run_worker

CONFLUENT = "confluent-kafka"
AIOKAFKA = "aiokafka"
KAFKA_PYTHON = "kafka-python"

_VALUE_BYTES = 100
_WITHOUT_KERNEL = {"OTTLA_KERNEL": "off"}
_IMPORTS_PER_ROUND = 7
FETCH_MAX_BYTES = 52_428_800  # fetch.max.bytes by default, in our consumer as in Java's
_PARTITIONS_OF_MEMORY_CASE = 64

# How many records each does in about the same time: a rate is a rate.
_COUNTS = {OURS: 3_000_000, CONFLUENT: 1_500_000, AIOKAFKA: 200_000, KAFKA_PYTHON: 150_000}
_COUNTS_WITHOUT_KERNEL = {**_COUNTS, OURS: 400_000}


class Produce:
    """Records to one partition until all are acknowledged; a topic of its own for each run."""

    unit = "/s"
    higher_is_better = True
    absolute_goal: float | None = None

    def __init__(
        self,
        name: str,
        title: str,
        rivals: Sequence[Rival],
        *,
        task: str,
        counts: Mapping[str, int],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.title = title
        self.rivals = rivals
        self._task = task
        self._counts = counts
        self._environment = environment
        self._runs = 0

    def prepare(self, peer: Peer) -> None:
        pass

    def run(self, peer: Peer, entrant: str) -> float:
        self._runs += 1
        topic = f"{self.name}-{self._runs}"
        peer.create_topic(topic)
        task = self._task if entrant == OURS else "produce"
        try:
            job = Job(peer.broker.bootstrap, topic, self._counts[entrant], _VALUE_BYTES)
            return job.record_count / run_worker(entrant, task, job, environment=self._environment).seconds
        finally:
            peer.drop_topic(topic)

    def clean_up(self, peer: Peer) -> None:
        pass


class Consume:
    """Records from one partition, from the assignment to the last one; all entrants read the same topic."""

    unit = "/s"
    higher_is_better = True
    absolute_goal: float | None = None

    def __init__(
        self,
        name: str,
        title: str,
        rivals: Sequence[Rival],
        *,
        task: str,
        rival_task: str = "consume",
        counts: Mapping[str, int],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.title = title
        self.rivals = rivals
        self._task = task
        self._rival_task = rival_task
        self._counts = counts
        self._environment = environment

    def prepare(self, peer: Peer) -> None:
        peer.create_topic(self.name, partitions=2)
        count = max(self._counts[name] for name in [OURS, *(rival.name for rival in self.rivals)])
        run_worker(CONFLUENT, "fill", Job(peer.broker.bootstrap, self.name, count, _VALUE_BYTES))

    def run(self, peer: Peer, entrant: str) -> float:
        job = Job(peer.broker.bootstrap, self.name, self._counts[entrant], _VALUE_BYTES)
        task = self._task if entrant == OURS else self._rival_task
        return job.record_count / run_worker(entrant, task, job, environment=self._environment).seconds

    def clean_up(self, peer: Peer) -> None:
        peer.drop_topic(self.name)


class Memory:
    """The peak of a consumer's process that reads 64 partitions as fast as it can, with the fetch limits by default."""

    unit = "MB"
    higher_is_better = False
    rivals: Sequence[Rival] = (Rival(CONFLUENT),)

    def __init__(self, name: str, title: str, *, task: str, count: int) -> None:
        self.name = name
        self.title = title
        self.absolute_goal: float | None = (1.5 * FETCH_MAX_BYTES + 60e6) / 1e6
        self._task = task
        self._count = count

    def prepare(self, peer: Peer) -> None:
        peer.create_topic(self.name, partitions=_PARTITIONS_OF_MEMORY_CASE)
        run_worker(CONFLUENT, "fill_all", Job(peer.broker.bootstrap, self.name, self._count, _VALUE_BYTES))

    def run(self, peer: Peer, entrant: str) -> float:
        job = Job(peer.broker.bootstrap, self.name, self._count, _VALUE_BYTES)
        return run_worker(entrant, self._task if entrant == OURS else "consume_all", job).peak_bytes / 1e6

    def clean_up(self, peer: Peer) -> None:
        peer.drop_topic(self.name)


class ImportTime:
    """A fresh interpreter that imports the clients and nothing else."""

    name = "client-import"
    title = "import of Producer and Consumer"
    unit = "ms"
    higher_is_better = False
    rivals: Sequence[Rival] = (Rival(AIOKAFKA, 0.5), Rival(CONFLUENT), Rival(KAFKA_PYTHON))
    absolute_goal: float | None = None
    _statements: Mapping[str, str] = {
        OURS: "from ottla import Producer, Consumer",
        AIOKAFKA: "import aiokafka",
        CONFLUENT: "import confluent_kafka",
        KAFKA_PYTHON: "import kafka",
    }

    def prepare(self, peer: Peer) -> None:
        for entrant in self._statements:
            self.run(peer, entrant)  # compiles what was never imported before

    def run(self, peer: Peer, entrant: str) -> float:
        del peer
        program = (
            f"import time; started = time.perf_counter(); {self._statements[entrant]}; "
            "print(time.perf_counter() - started)"
        )
        figures = []
        for _ in range(_IMPORTS_PER_ROUND):
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
            figures.append(1000 * float(done.stdout))
        return statistics.median(figures)

    def clean_up(self, peer: Peer) -> None:
        pass


_FIXTURE_TEST = """
import time
from pathlib import Path

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    started = time.perf_counter()
    result = yield
    if fixturedef.argname == "ottla_broker":
        Path(__file__).with_name("seconds").write_text(str(time.perf_counter() - started))
    return result
"""


class FixtureStart:
    """The first `ottla_broker` of a pytest run, from the call of the fixture until the test; beside Kafka's start."""

    name = "client-fixture"
    title = "start of the pytest fixture"
    unit = "ms"
    higher_is_better = False
    absolute_goal: float | None = 300.0

    def __init__(self, work_dir: Path, *, has_kafka: bool) -> None:
        self.rivals: Sequence[Rival] = (Rival("Apache Kafka", 0.3),) if has_kafka else ()
        self._folder = work_dir / "fixture"
        self._work_dir = work_dir

    def prepare(self, peer: Peer) -> None:
        self._folder.mkdir()
        (self._folder / "conftest.py").write_text(_FIXTURE_TEST)
        (self._folder / "test_one.py").write_text("def test_one(ottla_broker):\n    assert ottla_broker.port\n")

    def run(self, peer: Peer, entrant: str) -> float:
        if entrant != OURS:
            with Peer(THEIRS, self._work_dir) as fresh:
                return 1000 * fresh.broker.seconds_to_first_answer
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(self._folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self._folder)
        if done.returncode != 0:
            raise RuntimeError(f"pytest with ottla_broker: {done.stdout[-800:]}")
        return 1000 * float((self._folder / "seconds").read_text())

    def clean_up(self, peer: Peer) -> None:
        pass


def rival_cases(work_dir: Path, scale: float, *, has_kafka: bool) -> list[Race]:
    counts = {name: int(count * scale) for name, count in _COUNTS.items()}
    python_counts = {name: int(count * scale) for name, count in _COUNTS_WITHOUT_KERNEL.items()}
    produce_goals = (Rival(CONFLUENT, 1.0), Rival(AIOKAFKA, 4.0), Rival(KAFKA_PYTHON))
    consume_goals = (Rival(CONFLUENT, 1.0), Rival(AIOKAFKA, 1.5), Rival(KAFKA_PYTHON))
    reported = (Rival(CONFLUENT), Rival(AIOKAFKA), Rival(KAFKA_PYTHON))
    return [
        Consume("client-arrow-consume", "Arrow consume, 100 B", (Rival(CONFLUENT, 5.0),), task="consume-arrow",
                rival_task="consume-lists", counts=counts),
        Produce("client-arrow-produce", "Arrow produce, 100 B", (Rival(CONFLUENT, 3.0),), task="produce-arrow",
                counts=counts),
        Produce("client-produce", "produce, 100 B", produce_goals, task="produce", counts=counts),
        Consume("client-consume", "consume, 100 B", consume_goals, task="consume", counts=counts),
        Produce("client-python-produce", "produce without the kernel", reported, task="produce",
                counts=python_counts, environment=_WITHOUT_KERNEL),
        Consume("client-python-consume", "consume without the kernel", reported, task="consume",
                counts=python_counts, environment=_WITHOUT_KERNEL),
        Consume("client-python-arrow", "Arrow consume without the kernel", (Rival(CONFLUENT),), task="consume-arrow",
                rival_task="consume-lists", counts=python_counts, environment=_WITHOUT_KERNEL),
        Memory("client-memory", "memory of a consumer", task="consume_all", count=counts[OURS]),
        Memory("client-memory-arrow", "memory of an Arrow consumer", task="consume_all_arrow", count=counts[OURS]),
        ImportTime(),
        FixtureStart(work_dir, has_kafka=has_kafka),
    ]  # fmt: skip
