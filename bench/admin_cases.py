"""Administration: describing 1,000 topics, creating 500, a scrape of the metrics of 5,000 partitions."""

import http.client
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from bench.blocking_connection import Connection
from bench.model import OURS, Case, Metric
from bench.peers import Peer
from interop.broker_process import free_port
from ottla.core.errors import ErrorCode
from ottla.links.addresses import Address
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse

_CLIENT_ID = "ottla-bench"
_METADATA_VERSION = 12
_DESCRIBE_VERSION = 0
_PAGE_PARTITIONS = 2000  # what a client asks for by default, and the most that a broker gives by default
_LATEST = -1
_TIMEOUT_MS = 120_000
_DELETED_SECONDS_MAX = 120.0

ResponseT = TypeVar("ResponseT", bound=ApiMessage)


def connected(peer: Peer) -> Connection:
    return Connection(Address("127.0.0.1", peer.broker.port), client_id=_CLIENT_ID, request_timeout_ms=_TIMEOUT_MS)


def create(connection: Connection, names: Sequence[str], *, partitions: int) -> None:
    """In one request; an error of any topic is raised."""
    # A deleted topic's files go at once: otherwise they would burden the rounds after it.
    configs = [CreatableTopicConfig(name="file.delete.delay.ms", value="100")]
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs) for name in names
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=_TIMEOUT_MS)
    answer = connection.request(request, CreateTopicsResponse, version=7)
    for result in answer.topics:
        if result.error_code:
            raise RuntimeError(f"{result.name}: not created: {ErrorCode(result.error_code).name}")


def await_leaders(connection: Connection, names: Sequence[str], *, partitions: int) -> None:
    """Until every partition takes requests; Kafka answers a creation before its broker has heard of it."""
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=_LATEST) for index in range(partitions)]
    deadline = time.monotonic() + _TIMEOUT_MS / 1000
    left = list(names)
    while left:
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=wanted) for name in left])
        answer = connection.request(request, ListOffsetsResponse, version=7)
        left = [topic.name for topic in answer.topics if any(each.error_code for each in topic.partitions)]
        if left and time.monotonic() > deadline:
            raise TimeoutError(f"{len(left)} topics without leaders, {left[0]} is one")


def delete(peer: Peer, connection: Connection, names: Sequence[str]) -> None:
    """And wait until nothing is left of them on the disk, so that the next round has the machine for itself."""
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=_TIMEOUT_MS)
    connection.request(request, DeleteTopicsResponse, version=6)
    prefix = names[0].rsplit("-", 1)[0]
    deadline = time.monotonic() + _DELETED_SECONDS_MAX
    while any(peer.broker.data_dir.glob(f"{prefix}-*")) and time.monotonic() < deadline:
        time.sleep(0.1)


class Describing:
    """All topics by Metadata, and by DescribeTopicPartitions page by page as the newer admin clients do."""

    name = "admin-describe"

    def __init__(self, *, topics: int, repeats: int) -> None:
        self.title = f"describe {topics:,} topics x 10 partitions"
        self.metrics: Sequence[Metric] = (
            Metric("Metadata", "ms", higher_is_better=False, goal=1.0),
            Metric("DescribeTopicPartitions", "ms", higher_is_better=False, goal=1.0),
        )
        self._names = [f"{self.name}-{number:04}" for number in range(topics)]
        self._repeats = repeats
        self._prepared: set[str] = set()

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        del round_number
        with connected(peer) as connection:
            if peer.name not in self._prepared:
                for start in range(0, len(self._names), 100):
                    create(connection, self._names[start : start + 100], partitions=10)
                await_leaders(connection, self._names, partitions=10)
                self._prepared.add(peer.name)
            # Without decoding the answers while the clock runs: that would be the client's share, and the larger one.
            everything = encode_request(MetadataRequest(topics=None), _METADATA_VERSION, 0, _CLIENT_ID)
            pages = self._pages(connection)
            with peer.cpu_watch():
                metadata_ms = self._median_ms(lambda: _exchange(connection, [everything]))
                described_ms = self._median_ms(lambda: _exchange(connection, pages))
            frame = _exchange(connection, [everything])
            _, answer = decode_response(MetadataResponse, _METADATA_VERSION, frame)
            seen = sum(len(topic.partitions) for topic in answer.topics if topic.name in self._names)
            if seen != 10 * len(self._names):
                raise RuntimeError(f"{seen} partitions in the answer, {10 * len(self._names)} expected")
        return {"Metadata": metadata_ms, "DescribeTopicPartitions": described_ms}

    def _pages(self, connection: Connection) -> list[bytes]:
        """The requests that read all topics, page by page; found out by doing it once."""
        topics = [TopicRequest(name=name) for name in self._names]
        pages: list[bytes] = []
        seen = 0
        cursor: Cursor | None = None
        while True:
            request = DescribeTopicPartitionsRequest(
                topics=topics, response_partition_limit=_PAGE_PARTITIONS, cursor=cursor
            )
            pages.append(encode_request(request, _DESCRIBE_VERSION, 0, _CLIENT_ID))
            frame = _exchange(connection, pages[-1:])
            _, answer = decode_response(DescribeTopicPartitionsResponse, _DESCRIBE_VERSION, frame)
            seen += sum(len(topic.partitions) for topic in answer.topics)
            if answer.next_cursor is None:
                break
            cursor = answer.next_cursor
            topics = [topic for topic in topics if topic.name >= cursor.topic_name]
        if seen != 10 * len(self._names):
            raise RuntimeError(f"{seen} partitions on {len(pages)} pages, {10 * len(self._names)} expected")
        return pages

    def _median_ms(self, work: Callable[[], object]) -> float:
        taken: list[float] = []
        for _ in range(self._repeats):
            started = time.perf_counter()
            work()
            taken.append(1000 * (time.perf_counter() - started))
        return statistics.median(taken)


def _exchange(connection: Connection, frames: Sequence[bytes]) -> memoryview:
    """One after the other; the last answer, not decoded."""
    answer = memoryview(b"")
    for frame in frames:
        connection.send([frame])
        answer = connection.receive(0)
    return answer


class Creating:
    """Topics of one partition: one by one on one connection, and all in one request, until all of them take requests.

    Kafka answers as soon as its controller has the topics, and its broker makes the logs after that.
    """

    name = "admin-create"

    def __init__(self, *, topics: int) -> None:
        self.title = f"create {topics} topics"
        self.metrics: Sequence[Metric] = (
            Metric("a request each", "ms", higher_is_better=False, goal=1.0),
            Metric("in one request", "ms", higher_is_better=False, goal=1.0),
            Metric("in one request, to the answer", "ms", higher_is_better=False),
        )
        self._topics = topics

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        singly = [f"{self.name}-{round_number}-a-{number:04}" for number in range(self._topics)]
        at_once = [f"{self.name}-{round_number}-b-{number:04}" for number in range(self._topics)]
        with connected(peer) as connection:
            with peer.cpu_watch():
                started = time.perf_counter()
                for name in singly:
                    create(connection, [name], partitions=1)
                await_leaders(connection, singly, partitions=1)
                singly_seconds = time.perf_counter() - started
            delete(peer, connection, singly)
            started = time.perf_counter()
            create(connection, at_once, partitions=1)
            answered_seconds = time.perf_counter() - started
            await_leaders(connection, at_once, partitions=1)
            usable_seconds = time.perf_counter() - started
            delete(peer, connection, at_once)
        return {
            "a request each": 1000 * singly_seconds,
            "in one request": 1000 * usable_seconds,
            "in one request, to the answer": 1000 * answered_seconds,
        }


class Scrape:
    """What Prometheus waits for, on a broker of its own with many partitions."""

    name = "metrics-scrape"

    def __init__(self, work_dir: Path, *, partitions: int, scrapes: int) -> None:
        self.title = f"metrics scrape with {partitions:,} partitions"
        self.metrics: Sequence[Metric] = (
            Metric("median", "ms", higher_is_better=False, goal=50.0, absolute_goal=True),
            Metric("slowest", "ms", higher_is_better=False),
            Metric("answer", "KB", higher_is_better=False),
        )
        self._work_dir = work_dir
        self._partitions = partitions
        self._scrapes = scrapes

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        del peer, round_number
        port = free_port()
        with Peer(OURS, self._work_dir, overrides={"ottla.metrics.listen": f"127.0.0.1:{port}"}) as fresh:
            with connected(fresh) as connection:
                names = [f"scraped-{number:03}" for number in range(self._partitions // 100)]
                create(connection, names, partitions=100)
                await_leaders(connection, names, partitions=100)
            taken: list[float] = []
            page = b""
            for _ in range(self._scrapes):
                started = time.perf_counter()
                page = _get(port, "/metrics")
                taken.append(1000 * (time.perf_counter() - started))
        return {"median": statistics.median(taken), "slowest": max(taken), "answer": len(page) / 1024}


def _get(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise RuntimeError(f"{path} was answered {answer.status}")
        return answer.read()
    finally:
        connection.close()


def admin_cases(scale: float) -> list[Case]:
    # Describing comes last: its topics stay.
    return [
        Creating(topics=int(500 * max(scale, 0.1))),
        Describing(topics=int(1000 * max(scale, 0.1)), repeats=max(3, int(15 * scale))),
    ]
