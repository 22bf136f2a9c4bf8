"""A snapshot as text, in the format that the client accepts: Prometheus' own, or OpenMetrics.

Runs on the thread of a scrape; imports the prometheus-client package, which the broker itself must not pay for, for
the choice of the format and for what it reports about the process.
"""

import platform
from collections.abc import Iterator

from prometheus_client import GCCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

from ottla import __version__
from ottla.broker.metrics import definitions
from ottla.broker.metrics.lines import family, histogram
from ottla.broker.metrics.partition_lines import PartitionLines
from ottla.broker.metrics.requests import api_name
from ottla.broker.metrics.snapshot import BrokerFacts, NetworkReading, Snapshot
from ottla.coordination.store import Code
from ottla.core.errors import ErrorCode
from ottla.core.metrics import NANOSECONDS

_END_OF_OPENMETRICS = b"# EOF\n"

_PROCESS = CollectorRegistry(auto_describe=False)
ProcessCollector(registry=_PROCESS)
GCCollector(registry=_PROCESS)


def render(
    snapshot: Snapshot, broker: BrokerFacts, *, uptime_s: float, accept: str, with_partitions: bool
) -> tuple[bytes, str]:
    """The text and its content type."""
    encode, content_type = choose_encoder(accept)
    is_openmetrics = content_type.startswith("application/openmetrics-text")
    process = encode(_PROCESS)
    parts = [process.removesuffix(_END_OF_OPENMETRICS) if is_openmetrics else process]
    own = _Text(snapshot, broker, uptime_s=uptime_s, is_openmetrics=is_openmetrics)
    parts += [text.encode() for text in own.render()]
    if snapshot.has_partitions:
        lines = PartitionLines(snapshot, is_openmetrics=is_openmetrics)
        parts += [text.encode() for text in lines.render(with_partitions=with_partitions)]
    if is_openmetrics:
        parts.append(_END_OF_OPENMETRICS)
    return b"".join(parts), content_type


class _Text:
    """All families but those that are summed over partitions."""

    def __init__(self, snapshot: Snapshot, broker: BrokerFacts, *, uptime_s: float, is_openmetrics: bool) -> None:
        self._snapshot = snapshot
        self._broker = broker
        self._uptime_s = uptime_s
        self._is_openmetrics = is_openmetrics

    def render(self) -> Iterator[str]:
        yield from self._of_broker()
        yield from self._of_requests()
        yield from self._of_waiting()
        if self._snapshot.network is not None:
            yield from self._of_network(self._snapshot.network)
        yield from self._of_storage()
        yield from self._of_store()
        yield from self._of_groups()

    def _of_broker(self) -> Iterator[str]:
        broker = self._broker
        snapshot = self._snapshot
        is_openmetrics = self._is_openmetrics
        who = (str(broker.broker_id), broker.cluster_id)
        yield self._single(definitions.BROKER_STATE, int(broker.state))
        yield family(definitions.BROKER_INFO, [(who, 1)], is_openmetrics=is_openmetrics)
        what = (__version__, platform.python_version())
        yield family(definitions.BUILD_INFO, [(what, 1)], is_openmetrics=is_openmetrics)
        yield self._single(definitions.UPTIME, self._uptime_s)
        yield self._single(definitions.ACTIVE_CONTROLLER, int(snapshot.controller_id == broker.broker_id))
        yield histogram(definitions.LOOP_LAG, [((), snapshot.loop_lag)], is_openmetrics=is_openmetrics)
        yield self._single(definitions.SCRAPE_LOOP_WAIT, snapshot.loop_wait_ns / NANOSECONDS)
        yield self._single(definitions.SCRAPE_LOOP_TIME, snapshot.loop_time_ns / NANOSECONDS)
        if snapshot.topics is not None:
            yield self._single(definitions.TOPICS, snapshot.topics)

    def _of_requests(self) -> Iterator[str]:
        is_openmetrics = self._is_openmetrics
        apis = [((api_name(key),), api) for key, api in sorted(self._snapshot.apis.items())]
        yield family(definitions.REQUESTS, [(name, api.started) for name, api in apis], is_openmetrics=is_openmetrics)
        apis = [(name, api) for name, api in apis if api.started]  # dozens of APIs are never asked for
        durations = [(name, api.durations) for name, api in apis]
        yield histogram(definitions.REQUEST_DURATION, durations, is_openmetrics=is_openmetrics)
        for metric, samples in (
            (definitions.REQUESTS_IN_FLIGHT, [(name, api.waiting) for name, api in apis]),
            (definitions.REQUESTS_ABANDONED, [(name, api.abandoned) for name, api in apis]),
            (definitions.REQUESTS_FAILED, [(name, api.failed) for name, api in apis]),
        ):
            yield family(metric, samples, is_openmetrics=is_openmetrics)
        errors = [((*name, _error_name(code)), count) for name, api in apis for code, count in api.errors.items()]
        yield family(definitions.REQUEST_ERRORS, errors, is_openmetrics=is_openmetrics)

    def _of_waiting(self) -> Iterator[str]:
        snapshot = self._snapshot
        if snapshot.fetch_sessions is not None:
            yield self._single(definitions.FETCH_SESSIONS, snapshot.fetch_sessions.sessions)
            yield self._single(definitions.FETCH_SESSION_PARTITIONS, snapshot.fetch_sessions.partitions)
            yield self._single(definitions.FETCH_SESSION_EVICTIONS, snapshot.fetch_sessions.evictions)
        if snapshot.timers is not None:
            yield self._single(definitions.TIMERS, snapshot.timers)
        yield self._by_name(definitions.PURGATORY, snapshot.purgatories)

    def _of_network(self, network: NetworkReading) -> Iterator[str]:
        for metric, value in (
            (definitions.BYTES_RECEIVED, network.bytes_in),
            (definitions.BYTES_SENT, network.bytes_out),
            (definitions.CONNECTIONS, network.connections),
            (definitions.CONNECTIONS_ACCEPTED, network.accepted),
            (definitions.REQUEST_MEMORY, network.memory_bytes),
            (definitions.REQUEST_MEMORY_LIMIT, network.memory_limit_bytes),
            (definitions.MEMORY_WAITERS, network.memory_waiters),
            (definitions.RETAINED_BUFFERS, network.retained_bytes),
            (definitions.COLD_READS, network.cold_reads),
        ):
            yield self._single(metric, value)
        yield self._by_name(definitions.CONNECTIONS_CLOSED, network.closed)
        yield self._by_name(definitions.CONNECTIONS_REFUSED, network.refused)

    def _of_storage(self) -> Iterator[str]:
        snapshot = self._snapshot
        states = {"online": len(snapshot.online_directories), "offline": len(snapshot.offline_directories)}
        yield self._by_name(definitions.LOG_DIRECTORIES, states)
        flushes = [((), snapshot.flush_durations)]
        yield histogram(definitions.LOG_FLUSH_DURATION, flushes, is_openmetrics=self._is_openmetrics)
        yield self._single(definitions.LOG_FLUSH_FAILURES, snapshot.flush_failures)

    def _of_store(self) -> Iterator[str]:
        operations = self._snapshot.store.items()
        durations = [((name,), operation.durations) for name, operation in operations]
        yield histogram(definitions.STORE_DURATION, durations, is_openmetrics=self._is_openmetrics)
        counts = [
            ((name, Code(code).name), count)
            for name, operation in operations
            for code, count in operation.by_code.items()
        ]
        yield family(definitions.STORE_OPERATIONS, counts, is_openmetrics=self._is_openmetrics)

    def _of_groups(self) -> Iterator[str]:
        groups = self._snapshot.groups
        if groups is not None:
            yield self._by_name(definitions.GROUPS, groups.by_state)
            yield self._single(definitions.GROUP_OFFSETS, groups.offsets)
            yield self._single(definitions.GROUP_REBALANCES, groups.rebalances)

    def _single(self, metric: definitions.Metric, value: float) -> str:
        return family(metric, [((), value)], is_openmetrics=self._is_openmetrics)

    def _by_name(self, metric: definitions.Metric, values: dict[str, int]) -> str:
        samples = [((name,), value) for name, value in values.items()]
        return family(metric, samples, is_openmetrics=self._is_openmetrics)


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
