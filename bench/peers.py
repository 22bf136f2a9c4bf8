"""The brokers under test: a running process with an admin client, and topics that leave nothing on the disk."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from confluent_kafka import OFFSET_END, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from interop.broker_process import BrokerProcess
from interop.kafka_peer import KafkaPeer
from interop.ottla_broker import OttlaBroker

_BROKERS: dict[str, Callable[..., BrokerProcess]] = {"ottla": OttlaBroker, "kafka": KafkaPeer}
# A deleted topic's files go at once: otherwise writing them back burdens the rounds after it. A new group begins at
# once too: what is measured of it is the broker's work, not a delay.
_OVERRIDES: Mapping[str, Mapping[str, str]] = {
    "ottla": {"group.initial.rebalance.delay.ms": "0"},
    "earlier": {"group.initial.rebalance.delay.ms": "0"},
    "kafka": {
        "group.initial.rebalance.delay.ms": "0",
        "log.segment.delete.delay.ms": "100",
        "log.initial.task.delay.ms": "1000",
    },
}
_DELETE_TIMEOUT_SECONDS = 20.0


def use_earlier(checkout: Path) -> None:
    """Another checkout of Ottla is the peer `earlier`, run by the Python of its own set-up."""
    python = checkout.resolve() / ".venv/bin/python"
    if not python.exists():
        raise FileNotFoundError(f"{checkout} is not set up: run make setup there")
    _BROKERS["earlier"] = partial(OttlaBroker, python=str(python))


class Peer:
    """One broker under test, in a folder of its own that is removed at the end."""

    def __init__(self, name: str, work_dir: Path, *, overrides: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.scratch_dir = work_dir / f"{name}-{time.monotonic_ns()}"
        self.scratch_dir.mkdir(parents=True)
        all_overrides = {**_OVERRIDES[name], **(overrides or {})}
        self.broker = _BROKERS[name](self.scratch_dir / "data", overrides=all_overrides)
        self._admin: AdminClient | None = None
        self.cpu_cores_used: float | None = None

    @contextlib.contextmanager
    def cpu_watch(self) -> Iterator[None]:
        """How many cores the broker keeps busy inside this block, for the runner to pick up."""
        cpu_before, started = self.broker.cpu_seconds(), time.perf_counter()
        yield
        self.cpu_cores_used = (self.broker.cpu_seconds() - cpu_before) / (time.perf_counter() - started)

    @property
    def admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        return self._admin

    def create_topic(self, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create it and wait until each partition has a leader."""
        new_topic = NewTopic(topic, partitions, 1, config={"file.delete.delay.ms": "100", **(config or {})})
        self.admin.create_topics([new_topic])[topic].result(timeout=30)
        self._wait_for_leaders(topic, partitions)

    def _wait_for_leaders(self, topic: str, partitions: int) -> None:
        # ListOffsets, not Metadata: Kafka announces a leader before that leader takes requests.
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(topic, partition): latest for partition in range(partitions)}
        deadline = time.monotonic() + 30
        while True:
            try:
                for future in self.admin.list_offsets(asked, request_timeout=10).values():
                    future.result(timeout=10)
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                # librdkafka may keep a "no leader" in its cache; a new client asks again.
                self._admin = None
                time.sleep(0.1)
            else:
                return

    def drop_topic(self, topic: str) -> None:
        """Free its disk space: by deleting it, or where that is not served, by deleting its records."""
        partitions = list(self.admin.list_topics(topic, timeout=10).topics[topic].partitions)
        try:
            self.admin.delete_topics([topic])[topic].result(timeout=30)
        except KafkaException:
            ends = [TopicPartition(topic, partition, OFFSET_END) for partition in partitions]
            for future in self.admin.delete_records(ends).values():
                future.result(timeout=30)
            os.sync()
            return
        deadline = time.monotonic() + _DELETE_TIMEOUT_SECONDS
        # While it waits to be deleted its folder has another name: <topic>-<partition>.<id>-delete, cut to 255.
        while any(self.broker.data_dir.glob(f"{topic}-*")) and time.monotonic() < deadline:
            time.sleep(0.05)

    def __enter__(self) -> "Peer":
        self.broker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._admin = None
        self.broker.stop()
        shutil.rmtree(self.scratch_dir, ignore_errors=True)
