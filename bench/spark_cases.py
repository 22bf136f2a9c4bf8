"""Our Spark source and sink beside Spark's own Kafka connector, on the same broker: rows a second, warmed up."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pyarrow as pa

from bench.model import OURS
from bench.peers import Peer
from bench.races import Race, Rival
from ottla import Producer

OFFICIAL = "spark-kafka"
_FORMATS = {OURS: "ottla", OFFICIAL: "kafka"}
_PARTITIONS = 2
_ROWS = 4_000_000
_ROWS_PER_TABLE = 100_000
_VALUE_BYTES = 100
_SECONDS_MAX = 900.0


class SparkRace:
    """One query of `bench.spark_job` through both connectors; each run has a Spark of its own."""

    unit = "rows/s"
    higher_is_better = True
    absolute_goal: float | None = None

    def __init__(self, name: str, title: str, *, task: str, goal: float, rows: int, is_filled: bool = True) -> None:
        self.name = name
        self.title = title
        self.rivals: Sequence[Rival] = [Rival(OFFICIAL, goal)]
        self._task = task
        self._rows = rows
        self._is_filled = is_filled

    def prepare(self, peer: Peer) -> None:
        peer.create_topic(self.name, partitions=_PARTITIONS)
        if self._is_filled:
            with Producer(bootstrap_servers=peer.broker.bootstrap) as producer:
                for table in _events(self._rows):
                    producer.send_arrow(self.name, table).result()

    def run(self, peer: Peer, entrant: str) -> float:
        job = {
            "bootstrap": peer.broker.bootstrap,
            "topic": self.name,
            "partitions": _PARTITIONS,
            "count": self._rows,
            "value_bytes": _VALUE_BYTES,
            "warm_up": self._rows // 10,
            "connector": _FORMATS[entrant],
            "task": self._task,
        }
        done = subprocess.run(
            [sys.executable, "-m", "bench.spark_job", json.dumps(job)],
            capture_output=True,
            text=True,
            timeout=_SECONDS_MAX,
            check=False,
            env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        )
        if done.returncode != 0:
            raise RuntimeError(f"{entrant} {self._task}: {done.stderr[-800:]}")
        seconds: float = json.loads(done.stdout.splitlines()[-1])["seconds"][0]
        return self._rows / seconds

    def clean_up(self, peer: Peer) -> None:
        peer.drop_topic(self.name)


def _events(count: int) -> Iterator[pa.Table]:
    """Rows of about 110 bytes, in turn for each partition."""
    event = b'{"account_id":"a%07d","event_type":"credit","event_time":%d,"credit":%d,"other":"%020d"}'
    for first in range(0, count, _ROWS_PER_TABLE):
        numbers = range(first, min(first + _ROWS_PER_TABLE, count))
        yield pa.table(
            {
                "key": [b"%08d" % number for number in numbers],
                "value": [event % (number, 1_700_000_000_000 + number, number % 100, number) for number in numbers],
                "partition": pa.array([number // 1000 % _PARTITIONS for number in numbers], pa.int32()),
            }
        )


def spark_cases(scale: float) -> list[Race]:
    rows = int(_ROWS * scale)
    return [
        SparkRace("spark-batch", "Spark: a topic into nothing, batch", task="batch", goal=1.0, rows=rows),
        SparkRace("spark-stream", "Spark: the same, AvailableNow", task="available-now", goal=1.0, rows=rows),
        SparkRace("spark-json", "Spark: from_json and a filter", task="json", goal=1.0, rows=rows),
        SparkRace("spark-sink", "Spark: rows into a topic", task="sink", goal=0.7, rows=rows // 2, is_filled=False),
    ]
