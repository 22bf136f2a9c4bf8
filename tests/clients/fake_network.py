"""A network without sockets for the cores of clients: time moves by hand, brokers answer as the test says.

    network = FakeNetwork(topics={"orders": 3})            # Metadata is answered from this by itself
    network.serve(ApiKey.HEARTBEAT, lambda sent: HeartbeatResponse())
    ...                                                     # let the core under test call the network
    network.run()                                           # whatever is due now, until nothing is left
    network.advance(100)                                    # the same, while the clock moves on

A handler gets the `Sent` request and gives a response message, a ClientError, or None: then the request is held, and
the test answers it when it likes by `sent.answer(response)` or `sent.fail(error)`. An API without a handler is held.
`network.sent` has every request in order, `network.held(api_key)` those without an answer. Requests by `request_frame`
are decoded with the same message classes, so that a test need not care which way they came.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ottla.clients.errors import ClientError, ConnectionFailed, RequestTimedOut
from ottla.clients.network.port import ANY_BROKER, OnResponse, coordinator_connection
from ottla.core.types import BrokerId, Buffer
from ottla.links.addresses import Address
from ottla.protocol.apis import ApiKey, request_class, response_class
from ottla.protocol.codec import decode, encode_response
from ottla.protocol.frames import parse_request_header
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Handler: TypeAlias = Callable[["Sent"], ApiMessage | ClientError | None]

REQUEST_TIMEOUT_MS = 30_000
STEPS_MAX = 100_000


class FakeTimer:
    def __init__(self, at_ms: int, callback: Callable[[], None]) -> None:
        self.at_ms = at_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Sent:
    """One request as the broker sees it. `message` is decoded, also where it came as a frame."""

    def __init__(
        self,
        network: "FakeNetwork",
        broker_id: BrokerId,
        message: Any,
        version: int,
        deliver: Callable[["Sent", ApiMessage | ClientError], None],
    ) -> None:
        self.network = network
        self.broker_id = broker_id  # as asked for; a coordinator's connection has its own id, see `node_id`
        self.message = message
        self.version = version
        self.at_ms = network.now_ms()
        self.is_done = False
        self._deliver = deliver
        self._timer: FakeTimer | None = None

    def __repr__(self) -> str:
        return f"Sent({ApiKey(self.api_key).name} v{self.version} to {self.broker_id} at {self.at_ms})"

    @property
    def api_key(self) -> int:
        return self.message.API_KEY  # type: ignore[no-any-return]

    @property
    def node_id(self) -> BrokerId:
        return coordinator_connection(self.broker_id) if self.broker_id >= 2**30 else self.broker_id

    def answer(self, response: ApiMessage, *, after_ms: int = 0) -> None:
        """Give the response, after a while if told; not within this call. A late one, after a time-out, is lost."""
        self._finish(response, after_ms)

    def fail(self, error: ClientError | None = None, *, after_ms: int = 0) -> None:
        """As if the connection had broken, unless an error is given."""
        self._finish(error or ConnectionFailed(f"broker {self.node_id}: the connection was cut"), after_ms)

    def _finish(self, outcome: ApiMessage | ClientError, after_ms: int) -> None:
        self.network.call_later(after_ms, lambda: self._arrive(outcome))

    def _arrive(self, outcome: ApiMessage | ClientError) -> None:
        if not self.is_done:
            self.is_done = True
            if self._timer is not None:
                self._timer.cancel()
            self._deliver(self, outcome)


class FakeNetwork:
    """Implements `ottla.clients.network.port.Network`, and is the cluster behind it."""

    def __init__(self, *, brokers: int = 1, topics: Mapping[str, int] | None = None) -> None:
        self.on_lost: list[Callable[[BrokerId], None]] = []
        self.sent: list[Sent] = []
        self.versions: dict[int, tuple[int, int]] = {}  # of an API, where the brokers don't serve all that we know
        self.unserved: set[int] = set()
        self.down: set[BrokerId] = set()  # requests to these fail
        self.throttled_until_ms: dict[BrokerId, int] = {}
        self.known: dict[BrokerId, Address] = {}  # what the metadata told
        # The cluster. Tests change it as they like; `topics` maps a name to the leader of each partition.
        self.broker_ids = list(range(1, brokers + 1))
        self.controller_id = 1
        self.topics: dict[str, list[BrokerId]] = {}
        self.leader_epochs: dict[tuple[str, int], int] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.topic_errors: dict[str, int] = {}
        for name, count in (topics or {}).items():
            self.add_topic(name, count)
        self._now_ms = 1_000_000
        self._timers: list[tuple[int, int, FakeTimer]] = []
        self._order = 0
        self._handlers: dict[int, Handler] = {int(ApiKey.METADATA): self._answer_metadata}

    # The port.

    def now_ms(self) -> int:
        return self._now_ms

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(self._now_ms + max(delay_ms, 0), callback)
        self._order += 1
        heapq.heappush(self._timers, (timer.at_ms, self._order, timer))
        return timer

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.call_later(0, callback)

    def post(self, callback: Callable[[], None]) -> None:
        self.call_later(0, callback)

    def request(
        self,
        broker_id: BrokerId,
        message: ApiMessage,
        on_response: OnResponse,
        *,
        timeout_ms: int | None = None,
        versions: tuple[int, int] | None = None,
    ) -> None:
        version = self._version(message.API_KEY, versions or message.VERSIONS)
        self._send(Sent(self, broker_id, message, version, lambda _, outcome: on_response(outcome)), timeout_ms)

    def request_frame(
        self,
        broker_id: BrokerId,
        api_key: int,
        encode: Callable[[int, int, str], Sequence[Buffer]],
        on_frame: Callable[[int, memoryview | ClientError], None],
        *,
        versions: tuple[int, int],
        timeout_ms: int | None = None,
        expects_response: bool = True,
    ) -> None:
        version = self._version(api_key, versions)
        frame = memoryview(b"".join(encode(version, 7, "fake")))
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4, "the size of the frame is wrong"
        header = parse_request_header(frame[4:])
        assert (header.api_key, header.api_version, header.correlation_id) == (api_key, version, 7)
        message = decode(request_class(api_key), version, frame[4 + header.body_position :])

        def deliver(sent: Sent, outcome: ApiMessage | ClientError) -> None:
            if isinstance(outcome, ClientError):
                on_frame(version, outcome)
            else:
                on_frame(version, memoryview(encode_response(outcome, version, 7))[4:])

        sent = Sent(self, broker_id, message, version, deliver)
        if expects_response:
            self._send(sent, timeout_ms)
            return
        self.sent.append(sent)
        sent.is_done = True
        if (handler := self._handlers.get(api_key)) is not None:
            handler(sent)
        self.call_soon(lambda: on_frame(version, memoryview(b"")))

    def in_flight(self, broker_id: BrokerId) -> int:
        return sum(not sent.is_done and sent.broker_id == broker_id for sent in self.sent)

    def serves(self, broker_id: BrokerId, api_key: int) -> tuple[int, int] | None:
        if api_key in self.unserved:
            return None
        return self.versions.get(api_key, response_class(api_key).VERSIONS)

    def throttle(self, broker_id: BrokerId, delay_ms: int) -> None:
        self.throttled_until_ms[broker_id] = self._now_ms + delay_ms

    def set_brokers(self, brokers: Mapping[BrokerId, Address]) -> None:
        self.known = dict(brokers)

    # What a test does.

    def serve(self, api_key: int, handler: Handler) -> None:
        """Answer an API's requests by a function; the last one given counts."""
        self._handlers[int(api_key)] = handler

    def hold(self, api_key: int) -> None:
        """Answer an API's requests by hand."""
        self._handlers.pop(int(api_key), None)

    def run(self) -> None:
        """Everything that is due at this moment, until nothing more is."""
        self.advance(0)

    def advance(self, delay_ms: int) -> None:
        """Move the clock on, with everything that comes due on the way in its order."""
        until_ms = self._now_ms + delay_ms
        for _ in range(STEPS_MAX):
            if not self._timers or self._timers[0][0] > until_ms:
                self._now_ms = until_ms
                return
            at_ms, _, timer = heapq.heappop(self._timers)
            self._now_ms = max(self._now_ms, at_ms)
            if timer.callback is not None:
                timer.callback()
        raise AssertionError(f"still something to do after {STEPS_MAX} steps: a loop without a wait")

    def of(self, api_key: int) -> list[Sent]:
        """All requests of an API so far."""
        return [sent for sent in self.sent if sent.api_key == api_key]

    def held(self, api_key: int | None = None) -> list[Sent]:
        """Those without an answer yet."""
        return [sent for sent in self.sent if not sent.is_done and api_key in (None, sent.api_key)]

    def cut(self, broker_id: BrokerId) -> None:
        """Lose the connection to a broker: what is held fails, the core is told."""
        for sent in self.held():
            if sent.node_id == broker_id:
                sent.fail()
        for listener in self.on_lost:
            self.call_soon(lambda listener=listener: listener(broker_id))  # type: ignore[misc]

    def add_topic(self, name: str, partitions: int) -> None:
        """Leaders go round; topic ids are made from the name."""
        self.topics[name] = [self.broker_ids[index % len(self.broker_ids)] for index in range(partitions)]
        self.topic_ids[name] = name.encode()[:16].ljust(16, b"\0")

    def move_leader(self, topic: str, partition: int, broker_id: BrokerId) -> None:
        self.topics[topic][partition] = broker_id
        self.leader_epochs[topic, partition] = self.leader_epochs.get((topic, partition), 0) + 1

    # Inside.

    def _version(self, api_key: int, ours: tuple[int, int]) -> int:
        served = self.versions.get(api_key)
        return ours[1] if served is None else min(ours[1], served[1])

    def _send(self, sent: Sent, timeout_ms: int | None) -> None:
        self.sent.append(sent)
        timeout_ms = REQUEST_TIMEOUT_MS if timeout_ms is None else timeout_ms
        sent._timer = self.call_later(timeout_ms, lambda: sent._arrive(RequestTimedOut(f"{sent}: no answer")))
        delay_ms = max(self.throttled_until_ms.get(sent.broker_id, 0) - self._now_ms, 0)
        self.call_later(delay_ms, lambda: self._handle(sent))

    def _handle(self, sent: Sent) -> None:
        if sent.node_id in self.down or (sent.broker_id == ANY_BROKER and self.down.issuperset(self.broker_ids)):
            sent.fail(ConnectionFailed(f"broker {sent.node_id}: not reached: Connection refused"))
            return
        handler = self._handlers.get(sent.api_key)
        outcome = handler(sent) if handler is not None else None
        if isinstance(outcome, ClientError):
            sent.fail(outcome)
        elif outcome is not None:
            sent.answer(outcome)

    def _answer_metadata(self, sent: Sent) -> MetadataResponse:
        asked = sent.message.topics
        names = sorted(self.topics) if asked is None else [topic.name for topic in asked]
        brokers = [MetadataResponseBroker(node_id=id_, host="fake", port=9000 + id_) for id_ in self.broker_ids]
        topics = [self._topic(name) for name in names]
        return MetadataResponse(
            brokers=brokers, cluster_id="fake-cluster", controller_id=self.controller_id, topics=topics
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name in self.topic_errors or name not in self.topics:
            return MetadataResponseTopic(name=name, error_code=self.topic_errors.get(name, 3))
        partitions = [
            MetadataResponsePartition(
                partition_index=index,
                leader_id=leader_id,
                leader_epoch=self.leader_epochs.get((name, index), 0),
                replica_nodes=list(self.broker_ids),
                isr_nodes=list(self.broker_ids),
            )
            for index, leader_id in enumerate(self.topics[name])
        ]
        return MetadataResponseTopic(name=name, topic_id=self.topic_ids[name], partitions=partitions)
