"""How many requests there were, how long they took, and what went wrong, by API.

The measured dispatcher replaces the plain one only where metrics are on: without them nothing is measured
and no request pays for it. Event loop only.
"""

from bisect import bisect_left
from collections.abc import Iterable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ottla.broker.api import Api, Dispatcher, HotApi, HotHandler, MessageHandler, RequestContext
from ottla.core.clock import Clock
from ottla.core.exchange import Answer, Deferred, Peer
from ottla.core.metrics import ErrorCounts, Histogram
from ottla.protocol.apis import ApiKey
from ottla.protocol.message import Message

if TYPE_CHECKING:
    from ottla.broker.fetch_read import FetchResult
    from ottla.broker.fetch_sessions import TopicKey
    from ottla.protocol.produce_codec import ProducedPartition

UNKNOWN_API = -1

# Thousands of partitions, each with a code that says the same as its topic's: not looked at one by one.
_ERRORS_OF_TOPICS_ONLY = (ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS)
_ERROR_DEPTH_MAX = 3


class ApiMetrics:
    """The requests of one API; how many there were in all is the sum of what became of them."""

    __slots__ = ("abandoned", "durations", "errors", "failed", "waiting")

    def __init__(self) -> None:
        self.durations = Histogram()  # of those that were answered, or that want no answer
        self.errors = ErrorCounts()
        self.waiting = 0  # for their answer, now
        self.abandoned = 0  # the peer was gone before the answer
        self.failed = 0  # the connection was closed instead of an answer

    @property
    def started(self) -> int:
        return self.durations.count + self.waiting + self.abandoned + self.failed


class RequestMetrics:
    """Owned by the broker's metrics. `by_api` grows with the APIs that are asked for; unknown keys share an entry."""

    def __init__(self) -> None:
        self.by_api: dict[int, ApiMetrics] = {}
        self.bytes_out_by_topic: dict[TopicKey, int] = {}  # by name or, from Fetch 13 on, by id
        self.produce_errors = self.of(ApiKey.PRODUCE).errors
        self.fetch_errors = self.of(ApiKey.FETCH).errors

    def of(self, api_key: int) -> ApiMetrics:
        found = self.by_api.get(api_key)
        if found is None:
            if api_key not in _KNOWN_KEYS:
                api_key = UNKNOWN_API
            found = self.by_api.setdefault(api_key, ApiMetrics())
        return found

    def count_produced(self, answers: "list[tuple[TopicKey, list[ProducedPartition]]]") -> None:
        """A produce was answered the long way; the short way has no errors."""
        for _, produced in answers:
            for answer in produced:
                if answer.error_code:
                    self.produce_errors.add(answer.error_code)

    def count_fetched(self, result: "FetchResult") -> None:
        """A fetch is answered with this."""
        bytes_out = self.bytes_out_by_topic
        for topic, fetched, size_bytes in result.partitions:
            if size_bytes:
                bytes_out[topic] = bytes_out.get(topic, 0) + size_bytes
            elif fetched.error_code:
                self.fetch_errors.add(fetched.error_code)


_KNOWN_KEYS = frozenset(int(key) for key in ApiKey)


class MeasuredDispatcher(Dispatcher):
    """A dispatcher with a stopwatch, from the moment that a request is read to the moment that its answer is known."""

    def __init__(self, clock: Clock, metrics: RequestMetrics) -> None:
        super().__init__(clock)
        self._metrics = metrics

    def serve(self, apis: Iterable[Api]) -> None:
        apis = list(apis)
        for api in apis:
            self._metrics.of(api.key)  # each API has its figures from the start, asked for or not
        super().serve(apis)

    def serve_brokers(self, apis: Iterable[Api], listener_name: str) -> None:
        apis = list(apis)
        for api in apis:
            self._metrics.of(api.key)
        super().serve_brokers(apis, listener_name)

    def _wrap_hot(self, key: ApiKey, handle_frame: HotHandler) -> HotHandler:
        return _measured_hot(handle_frame, self._metrics.of(key))

    def _dispatch_message(
        self, api_key: int, version: int, correlation_id: int, frame: memoryview, peer: Peer
    ) -> Answer | Deferred | None:
        served = self._apis.get(api_key)
        if isinstance(served, HotApi) and served.min_version <= version <= served.max_version:
            return super()._dispatch_message(api_key, version, correlation_id, frame, peer)  # its handler is measured
        api = self._metrics.of(api_key)
        started_ns = perf_counter_ns()
        try:
            answer = super()._dispatch_message(api_key, version, correlation_id, frame, peer)
        except Exception:
            api.failed += 1
            raise
        if isinstance(answer, Deferred) and not answer.is_complete:
            return _MeasuredDeferred(answer, api, started_ns)
        api.durations.observe(perf_counter_ns() - started_ns)
        return answer

    def _wrap(self, key: ApiKey, handle: MessageHandler) -> MessageHandler:
        errors = self._metrics.of(key).errors
        depth_max = 1 if key in _ERRORS_OF_TOPICS_ONLY else _ERROR_DEPTH_MAX

        def on_response(response: Any) -> None:
            count_errors(response, errors, depth_max=depth_max)

        def handle_counting(request: Any, context: RequestContext) -> Any:
            context.on_response = on_response
            response = handle(request, context)
            if isinstance(response, Message):
                on_response(response)
            return response

        return handle_counting


def _measured_hot(handle: HotHandler, api: ApiMetrics) -> HotHandler:
    """The handler with a stopwatch that costs as little as one in Python can."""
    durations = api.durations
    bounds_ns = durations.bounds_ns
    counts = durations.counts
    now_ns = perf_counter_ns

    def measured(frame: memoryview, version: int, correlation_id: int, peer: Peer) -> Answer | Deferred | None:
        started_ns = now_ns()
        try:
            answer = handle(frame, version, correlation_id, peer)
        except Exception:
            api.failed += 1
            raise
        if type(answer) is not bytes and isinstance(answer, Deferred) and not answer.is_complete:
            return _MeasuredDeferred(answer, api, started_ns)
        elapsed_ns = now_ns() - started_ns
        counts[bisect_left(bounds_ns, elapsed_ns)] += 1
        durations.sum_ns += elapsed_ns
        return answer

    return measured


class _MeasuredDeferred(Deferred):
    """Stands in for the handler's own deferred answer, so that its end can be seen."""

    __slots__ = ("_api", "_inner", "_started_ns")

    def __init__(self, inner: Deferred, api: ApiMetrics, started_ns: int) -> None:
        super().__init__(holds=inner.holds)
        self._inner: Deferred | None = inner
        self._api = api
        self._started_ns = started_ns
        inner.on_complete = self._on_inner_complete
        self.on_abandon = self._on_abandon
        api.waiting += 1

    def _on_inner_complete(self, inner: Deferred) -> None:
        self._inner = None
        inner.on_complete = None  # no ring of references stays behind
        if self.is_complete:
            return
        api = self._api
        api.waiting -= 1
        if inner.failure is not None:
            api.failed += 1
            self.fail(inner.failure)
            return
        api.durations.observe(perf_counter_ns() - self._started_ns)
        answer = inner.answer
        inner.answer = None
        self.complete(answer)

    def _on_abandon(self) -> None:
        inner = self._inner
        self._inner = None
        self._api.waiting -= 1
        self._api.abandoned += 1
        if inner is not None:
            inner.on_complete = None
            inner.abandon()


def count_errors(response: Any, errors: ErrorCounts, *, depth_max: int) -> None:
    """Count the error codes of a response and of the structs in its lists, that deep."""
    error_code = getattr(response, "error_code", 0)
    if error_code:
        errors.add(error_code)
    if depth_max:
        for name in _lists_of_structs(type(response)):
            for entry in getattr(response, name) or ():
                count_errors(entry, errors, depth_max=depth_max - 1)


_LISTS: dict[type, tuple[str, ...]] = {}


def _lists_of_structs(message_class: type[Message]) -> tuple[str, ...]:
    """The fields that can hold error codes further down; found once for a class."""
    found = _LISTS.get(message_class)
    if found is None:
        found = _LISTS[message_class] = tuple(
            field.name
            for field in message_class.FIELDS
            if field.type == "[]struct" and field.struct is not None and _has_errors(field.struct)
        )
    return found


def _has_errors(message_class: type[Message]) -> bool:
    return any(
        field.name == "error_code" or (field.struct is not None and _has_errors(field.struct))
        for field in message_class.FIELDS
    )


def api_name(key: int) -> str:
    """As Kafka spells it, with capitals: ListOffsets."""
    return "unknown" if key == UNKNOWN_API else ApiKey(key).name.replace("_", " ").title().replace(" ", "")
