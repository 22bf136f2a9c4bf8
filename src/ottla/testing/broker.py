"""`OttlaBroker`: a real broker inside a test, with the means to watch it and to make it misbehave.

A process of its own behind a proxy in the test's process. The fixtures of `plugin` start and end it; without pytest it
is a context manager. Methods import what only they need: a test waits for the start.
"""

from __future__ import annotations

import re
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.core.types import TopicPartition
from ottla.testing import waiting
from ottla.testing.broker_process import BrokerProcess
from ottla.testing.fault_controls import FaultControls
from ottla.testing.reserved_port import reserve_port
from ottla.testing.waiting import DEFAULT_TIMEOUT_MS

if TYPE_CHECKING:
    from ottla.clients import topics as topic_requests
    from ottla.clients.admin_groups import GroupDescription
    from ottla.clients.cluster import Cluster
    from ottla.core.types import Offset
    from ottla.testing import proxy as proxying
    from ottla.testing import reading, watching
    from ottla.testing.aio import AsyncBroker
    from ottla.testing.reading import StoredRecord
else:
    from ottla.core.lazy_module import LazyModule

    topic_requests = LazyModule("ottla.clients.topics")
    reading = LazyModule("ottla.testing.reading")
    watching = LazyModule("ottla.testing.watching")

T = TypeVar("T")

# A test has few groups and no time: the first member of a group doesn't wait for others.
_DEFAULTS: Final = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
# This class sets the broker's addresses and folders.
_OURS: Final = frozenset({"listeners", "advertised.listeners", "log.dir", "log.dirs", "ottla.metrics.listen"})
_NAME_LENGTH_MAX: Final = 200
_REQUESTS_SHOWN: Final = 20
_LOG_LINES_SHOWN: Final = 40


class OttlaBroker(FaultControls):
    """From its creation to `close`. All methods may be called from any thread; those that wait have a timeout."""

    def __init__(
        self,
        data_dir: Path | str | None = None,
        *,
        config: Mapping[str, object] | None = None,
        direct: bool = False,
        metrics: bool = False,
        log_level: str = "INFO",
    ) -> None:
        """`direct`: without the proxy, for a test that measures speed; then there are no faults."""
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if data_dir is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="ottla-")
            data_dir = Path(self._temporary.name) / "data"
        self.data_dir = Path(data_dir)
        self.log_path = self.data_dir.with_name(self.data_dir.name + ".log")
        self.config = {**_DEFAULTS, **_as_text(config or {})}
        self._metrics = metrics
        self._log_level = log_level
        self._proxy: proxying.FaultProxy | None = None
        self._process: BrokerProcess | None = None
        self._port = 0  # the broker's own
        self._reserved = None if direct else reserve_port()
        self._reserved_port: int = 0 if self._reserved is None else self._reserved.getsockname()[1]
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> OttlaBroker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<OttlaBroker {self.bootstrap_servers} {'running' if self.is_running else 'down'}>"

    # Where it is.

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients; the same over restarts."""
        return f"127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return self._reserved_port or self._port

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running

    @property
    def ready_ms(self) -> float:
        """How long its last start took, from the fork until it accepted connections."""
        return self._running().ready_ms

    @property
    def metrics_url(self) -> str:
        """Prometheus metrics; only of a broker with `metrics=True`."""
        url = self._running().metrics_url
        if url is None:
            raise RuntimeError("this broker gives no metrics; ask for it with metrics=True")
        return url

    @property
    def log(self) -> str:
        """The broker's whole log, over restarts."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def describe(self) -> str:
        """For a failed test: state, faults, the last requests, the end of the log."""
        lines = [repr(self)]
        if self._proxy is not None:
            board = self._proxy.board
            faults, seen = board.run(lambda: (list(board.faults), list(board.seen)[-_REQUESTS_SHOWN:]))
            lines += [f"fault in force: {fault}, met by {fault.used}" for fault in faults]
            lines += [f"request: {request.api.name} v{request.version} of {request.client_id}" for request in seen]
        return "\n".join([*lines, *self.log.splitlines()[-_LOG_LINES_SHOWN:]])

    @property
    def aio(self) -> AsyncBroker:
        """The methods that wait, for `await`: a blocking one would stop the loop of the test's clients."""
        from ottla.testing.aio import AsyncBroker

        return AsyncBroker(self)

    # Its life.

    def start(self) -> None:
        """After `stop` or `kill`, on the same data and address; does nothing if it runs."""
        if self.is_running:
            return
        config = self.config
        if self._reserved is not None:
            config = {**config, "advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers}"}
        self._process = process = BrokerProcess(
            data_dir=self.data_dir,
            log_path=self.log_path,
            port=self._port if self._reserved is None else 0,
            config=config,
            metrics=self._metrics,
            log_level=self._log_level,
        )
        if self._reserved is not None and self._proxy is None:
            from ottla.testing.proxy import FaultProxy  # takes its time, while the broker takes its own

            self._proxy = FaultProxy(self._reserved)
        process.wait_until_ready()
        self._port = process.port
        if self._proxy is not None:
            self._proxy.open(process.port, broker_id=process.broker_id, cluster_id=process.cluster_id)

    def stop(self) -> int:
        """A clean shutdown by SIGTERM; returns the exit code. Refuses clients until `start`."""
        return self._end(lambda process: process.stop())

    def kill(self) -> None:
        """A crash by SIGKILL. Refuses clients until `start`."""
        self._end(lambda process: process.kill())

    def restart(self, *, kill: bool = False, config: Mapping[str, object] | None = None) -> None:
        """Stop (or kill) it and start it; adds `config` to its configuration."""
        if kill:
            self.kill()
        else:
            self.stop()
        self.config |= _as_text(config or {})
        self.start()

    def pause(self) -> None:
        """Freeze the process: connections stay, but it answers nothing until `resume`."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def heal(self) -> None:
        """Removes faults and makes it run again, before a shared broker goes to the next test."""
        if self._proxy is not None:
            self._proxy.board.clear()
        if self.is_running:
            self.resume()
        else:
            self.start()

    def check_alive(self) -> None:
        """BrokerDied, with the end of its log, if it ended unexpectedly."""
        if self._process is not None:
            self._process.check_alive()

    def close(self) -> None:
        """Ends process and proxy. Data and log stay if the caller chose their folders."""
        if self._process is not None:
            self.kill()
        if self._proxy is not None:
            self._proxy.close()
        elif self._reserved is not None:
            self._reserved.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    # Topics and records, directly from the broker: no fault applies.

    def create_topic(
        self, name: str | None = None, *, partitions: int = 1, config: Mapping[str, object] | None = None
    ) -> str:
        """Creates a topic whose partitions are ready; without a name it gets a unique one."""
        topic = name or unique_topic_name("topic")
        wanted = topic_requests.NewTopic(topic, partitions, 1, tuple(_as_text(config or {}, is_topic=True).items()))

        def create(cluster: Cluster) -> None:
            topic_requests.create_topics(cluster, [wanted])
            topic_requests.wait_for_leaders(cluster, [topic])

        self._ask(create)
        return topic

    def delete_topic(self, name: str) -> None:
        self._ask(lambda cluster: topic_requests.delete_topics(cluster, [name]))

    def topics(self) -> list[str]:
        """The names of all topics except internal ones, sorted."""
        return [name for name in self._ask(topic_requests.list_topics) if not name.startswith("__")]

    def produce(
        self,
        topic: str,
        records: Iterable[bytes | str | tuple[bytes | str | None, bytes | str | None] | None],
        *,
        partition: int | None = None,
    ) -> None:
        """Store values, or (key, value) pairs; they are stored when this returns. Keys choose partitions as in Java."""
        pairs = [record if isinstance(record, tuple) else (None, record) for record in records]
        encoded = [(_as_bytes(key), _as_bytes(value)) for key, value in pairs]
        self._ask(lambda cluster: reading.store_records(cluster, topic, encoded, partition))

    def records(self, topic: str) -> list[StoredRecord]:
        """All committed records of a topic now, partition by partition in order."""

        def read(cluster: reading.DirectCluster) -> list[StoredRecord]:
            with reading.TopicReader(cluster, topic) as reader:
                return sorted(reader.read_to_end(), key=lambda record: (record.partition, record.offset))

        return self._ask(read)

    def group(self, group: str) -> GroupDescription | None:
        """State, members and their partitions; None if there is no such group."""
        return self._ask(lambda cluster: reading.describe_group(cluster, group))

    def committed(self, group: str) -> dict[TopicPartition, Offset]:
        return self._ask(lambda cluster: reading.committed_offsets(cluster, group))

    # Waiting.

    def wait_for_records(
        self,
        topic: str,
        count: int,
        *,
        where: Callable[[StoredRecord], bool] | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> list[StoredRecord]:
        """Waits until a topic holds at least `count` records (that match); returns all records read so far."""
        return watching.wait_for_records(self._own_port, topic, count, where=where, timeout_ms=timeout_ms)

    def wait_for_group(
        self,
        group: str,
        *,
        state: str | None = "Stable",
        members: int | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> GroupDescription:
        """Waits until a group has this state and number of members; None matches any."""
        return watching.wait_for_group(self._own_port, group, state=state, members=members, timeout_ms=timeout_ms)

    def wait_for_commit(
        self, group: str, topic: str, offset: Offset, *, partition: int = 0, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> Offset:
        """Waits until a group has committed at least this offset; returns the committed one."""
        topic_partition = TopicPartition(topic, partition)
        return watching.wait_for_commit(self._own_port, group, topic_partition, offset, timeout_ms=timeout_ms)

    def wait_until(
        self,
        condition: Callable[[], T],
        *,
        what: str = "the condition holds",
        seen: Callable[[], str] | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> T:
        """The first true result of `condition`; an AssertionError from it means "not yet"."""
        return waiting.wait_until(condition, timeout_ms=timeout_ms, what=what, seen=seen)

    def _end(self, how: Callable[[BrokerProcess], T]) -> T:
        process = self._process
        assert process is not None
        if self._proxy is not None:
            self._proxy.shut()  # first: clients that are thrown out must not get in again before the broker is down
        try:
            return how(process)
        finally:
            if self._proxy is not None:
                self._proxy.cut_connections()

    def _running(self) -> BrokerProcess:
        if self._process is None or not self._process.is_running:
            raise RuntimeError(f"the broker at {self.bootstrap_servers} is not running")
        return self._process

    def _own_port(self) -> int:
        return self._port

    def _ask(self, question: Callable[[reading.DirectCluster], T]) -> T:
        with reading.DirectCluster(self._own_port()) as cluster:
            return question(cluster)


def unique_topic_name(stem: str) -> str:
    """Readable in a log, legal as a topic's name, and unique."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.")[:_NAME_LENGTH_MAX] or "topic"
    return f"{plain}-{uuid.uuid4().hex[:8]}"


def _as_text(config: Mapping[str, object], *, is_topic: bool = False) -> dict[str, str]:
    """Config values as the broker reads them: lists with commas, booleans in lower case."""
    texts = {}
    for name, value in config.items():
        if name in _OURS and not is_topic:
            raise ValueError(f"{name}: this is chosen by OttlaBroker; leave it out")
        if isinstance(value, bool):
            texts[name] = str(value).lower()
        elif isinstance(value, list | tuple):
            texts[name] = ",".join(map(str, value))
        else:
            texts[name] = str(value)
    return texts


def _as_bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
