"""The two carriers on real sockets: a thread with a selector, and asyncio. One set of scenarios for both."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import pytest

from ottla.clients.errors import ClientClosed, ClientError, ConnectionFailed, RequestTimedOut, TimedOut
from ottla.clients.network.asyncio_network import AsyncioNetwork
from ottla.clients.network.base import BaseNetwork
from ottla.clients.network.metadata import Metadata
from ottla.clients.network.port import ANY_BROKER
from ottla.clients.network.threaded import ThreadNetwork
from ottla.links.addresses import Address
from ottla.links.settings import NetworkSettings
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import encode_response
from ottla.protocol.frames import parse_request_header
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.metadata import MetadataResponse
from tests.clients.network.scripted_loop import versions_response

WAIT_S = 20
LARGE_BYTES = 3_000_000

Answer = Callable[[int], ApiMessage | None]


class Peer:
    """A broker on a real socket that answers what the test says, by API key; None hangs up."""

    def __init__(self, answers: dict[int, Answer]) -> None:
        self.answers = answers
        self.connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        self.listener.close()
        self.cut()

    def cut(self) -> None:
        while self._sockets:
            with suppress(OSError):
                self._sockets.pop().shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self.listener.accept()
                self.connections += 1
                self._sockets.append(peer)
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with peer, peer.makefile("rb") as stream, suppress(OSError):
            while size := stream.read(4):
                header = parse_request_header(memoryview(stream.read(int.from_bytes(size, "big"))))
                if header.api_key == ApiKey.API_VERSIONS:
                    served = [(ApiKey.HEARTBEAT, 0, 4), (ApiKey.DESCRIBE_GROUPS, 0, 5), (ApiKey.METADATA, 0, 12)]
                    response: ApiMessage | None = versions_response(*served)
                else:
                    response = self.answers[header.api_key](header.api_version)
                if response is None:
                    return
                peer.sendall(encode_response(response, header.api_version, header.correlation_id))


@contextmanager
def peer_with(**answers: Answer) -> Iterator[Peer]:
    peer = Peer({int(ApiKey[name.upper()]): answer for name, answer in answers.items()})
    try:
        yield peer
    finally:
        peer.close()


class Carrier(Protocol):
    network: BaseNetwork

    def ask(self, start: Callable[[Callable[[Any], None]], None]) -> Any:
        """Run `start` in the client loop with a callback, and wait for what that gets."""
        ...

    def call(self, callback: Callable[[], Any]) -> Any: ...

    def close(self) -> None: ...


class ThreadCarrier:
    def __init__(self, bootstrap: str, settings: NetworkSettings) -> None:
        self.network = ThreadNetwork(bootstrap, client_id="test", settings=settings)
        self.network.start()

    def ask(self, start: Callable[[Callable[[Any], None]], None]) -> Any:
        done = threading.Event()
        results: list[Any] = []
        self.network.call(lambda: start(lambda result: (results.append(result), done.set())))  # type: ignore[func-returns-value]
        assert done.wait(WAIT_S), "no call back"
        return results[0]

    def call(self, callback: Callable[[], Any]) -> Any:
        return self.network.call(callback)

    def close(self) -> None:
        self.network.close()


class AsyncioCarrier:
    def __init__(self, bootstrap: str, settings: NetworkSettings) -> None:
        self._is_closed = False
        self._runner = asyncio.Runner()

        async def make() -> AsyncioNetwork:
            return AsyncioNetwork(bootstrap, client_id="test", settings=settings)

        self.network = self._runner.run(make())

    def ask(self, start: Callable[[Callable[[Any], None]], None]) -> Any:
        async def ask() -> Any:
            try:
                return await asyncio.wait_for(self.network.ask(start), WAIT_S)
            except ClientError as error:
                return error

        return self._runner.run(ask())

    def call(self, callback: Callable[[], Any]) -> Any:
        async def run() -> Any:
            return callback()

        return self._runner.run(run())

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._runner.run(self.network.close())
            self._runner.close()


MakeCarrier = Callable[..., Carrier]


@pytest.fixture(params=[ThreadCarrier, AsyncioCarrier], ids=["thread", "asyncio"])
def carrier(request: pytest.FixtureRequest) -> Iterator[MakeCarrier]:
    made: list[Carrier] = []

    def make(bootstrap: str, **settings: int) -> Carrier:
        made.append(request.param(bootstrap, NetworkSettings(**settings)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def heartbeat(carrier: Carrier, **options: Any) -> Any:
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    return carrier.ask(lambda done: carrier.network.request(ANY_BROKER, message, done, **options))


def test_a_request_is_answered(carrier: MakeCarrier) -> None:
    with peer_with(heartbeat=lambda version: HeartbeatResponse()) as peer:
        each = carrier(peer.address)
        for _ in range(20):
            assert isinstance(heartbeat(each), HeartbeatResponse)
        assert peer.connections == 1


def test_large_requests_and_answers_pass(carrier: MakeCarrier) -> None:
    group = "g" * 30_000
    answer = DescribeGroupsResponse(
        groups=[DescribedGroup(group_id="a" * 30_000) for _ in range(LARGE_BYTES // 30_000)]
    )
    with peer_with(describe_groups=lambda version: answer) as peer:
        each = carrier(peer.address)
        request = DescribeGroupsRequest(groups=[group] * (LARGE_BYTES // len(group)))
        for _ in range(2):
            result = each.ask(lambda done: each.network.request(ANY_BROKER, request, done))
            assert result == answer


def test_a_host_name_is_looked_up(carrier: MakeCarrier) -> None:
    with peer_with(heartbeat=lambda version: HeartbeatResponse()) as peer:
        assert isinstance(heartbeat(carrier(f"localhost:{peer.port}")), HeartbeatResponse)


def test_a_name_that_nobody_has_is_told(carrier: MakeCarrier) -> None:
    error = heartbeat(carrier("no-such-host.invalid:9092"))
    assert isinstance(error, ConnectionFailed)
    assert "no-such-host.invalid:9092: not reached: the name was not resolved" in str(error)


def test_a_port_where_nobody_listens_is_told(carrier: MakeCarrier) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error = heartbeat(carrier(f"127.0.0.1:{port}"))
    assert isinstance(error, ConnectionFailed)
    assert str(error) == (f"no broker was reached for HEARTBEAT: 127.0.0.1:{port}: not reached: Connection refused")


def test_a_peer_that_hangs_up_is_told_and_connected_to_again(carrier: MakeCarrier) -> None:
    answers = iter([None, HeartbeatResponse()])
    with peer_with(heartbeat=lambda version: next(answers)) as peer:
        each = carrier(peer.address)
        error = heartbeat(each)
        assert isinstance(error, ConnectionFailed)
        assert "the broker closed the connection" in str(error)
        assert isinstance(heartbeat(each), HeartbeatResponse)
        assert peer.connections == 2


def test_a_peer_that_does_not_answer_runs_into_the_timeout(carrier: MakeCarrier) -> None:
    release = threading.Event()

    def late(version: int) -> ApiMessage:
        release.wait(WAIT_S)
        return HeartbeatResponse()

    with peer_with(heartbeat=late) as peer:
        each = carrier(peer.address)
        error = heartbeat(each, timeout_ms=100)
        assert isinstance(error, RequestTimedOut)
        assert str(error) == f"{peer.address}: HEARTBEAT: no answer within 100 ms"
        release.set()  # the late answer goes to a closed socket
        assert isinstance(heartbeat(each), HeartbeatResponse)


def test_a_peer_that_says_nothing_at_all_is_given_up(carrier: MakeCarrier) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        each = carrier(f"127.0.0.1:{listener.getsockname()[1]}", setup_timeout_ms=100)
        assert "not reached" in str(heartbeat(each))


def test_requests_under_way_fail_when_the_client_closes(carrier: MakeCarrier) -> None:
    release = threading.Event()
    results: list[Any] = []

    def never(version: int) -> ApiMessage | None:
        release.wait(WAIT_S)
        return None

    with peer_with(heartbeat=never) as peer:
        each = carrier(peer.address)
        message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        each.call(lambda: each.network.request(ANY_BROKER, message, results.append))
        each.close()
        release.set()
    assert isinstance(results[0], ClientClosed)


def test_metadata_of_an_unreachable_cluster_ends_in_time_with_the_reason(carrier: MakeCarrier) -> None:
    each = carrier("127.0.0.1:1")
    metadata = each.call(lambda: Metadata(each.network, max_age_ms=300_000, backoff_ms=10))  # type: ignore[arg-type]
    error = each.ask(lambda done: metadata.wait_for_topic("orders", 200, done))
    assert isinstance(error, TimedOut)
    assert str(error).startswith("topic orders: not known after 200 ms: no broker was reached for METADATA")
    assert "Connection refused" in str(error)


def test_a_bug_in_a_callback_ends_the_thread_and_tells_everyone() -> None:
    network = ThreadNetwork("127.0.0.1:1", client_id="test", settings=NetworkSettings())
    told: list[ClientError] = []
    network.on_broken.append(told.append)
    network.start()

    def bug() -> None:
        raise LookupError("a bug")

    network.post(bug)
    network._thread.join(WAIT_S)
    with pytest.raises(ClientError, match="ended by a bug: LookupError"):
        network.call(lambda: None)
    network.close()
    assert len(told) == 1


def test_call_gives_the_result_or_raises_what_was_raised() -> None:
    network = ThreadNetwork("127.0.0.1:1", client_id="test", settings=NetworkSettings())
    network.start()
    assert network.call(lambda: 7) == 7
    assert network.call(lambda: network.call(lambda: network.is_in_loop))
    with pytest.raises(ZeroDivisionError):
        network.call(lambda: 1 // 0)
    network.close()
    network.close()
    with pytest.raises(ClientClosed):
        network.call(lambda: 7)


def test_it_can_be_closed_from_its_own_thread_and_before_its_start() -> None:
    network = ThreadNetwork("127.0.0.1:1", client_id="test", settings=NetworkSettings())
    network.start()
    network.call(network.close)
    network._thread.join(WAIT_S)
    assert not network._thread.is_alive()
    ThreadNetwork("127.0.0.1:1", client_id="test", settings=NetworkSettings()).close()


def test_many_threads_post_and_nothing_is_lost() -> None:
    network = ThreadNetwork("127.0.0.1:1", client_id="test", settings=NetworkSettings())
    network.start()
    seen: list[int] = []
    threads = [
        threading.Thread(target=lambda: [network.post(lambda: seen.append(1)) for _ in range(2_000)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    network.call(lambda: None)
    assert len(seen) == 8_000
    network.close()


def test_timers_run_in_the_order_of_their_times_and_not_when_cancelled() -> None:
    network = ThreadNetwork("127.0.0.1:1", client_id="test", settings=NetworkSettings())
    network.start()
    seen: list[str] = []
    done = threading.Event()

    def plan() -> None:
        network.call_later(20, lambda: seen.append("late"))
        network.call_later(40, done.set)
        network.call_later(10, lambda: seen.append("early"))
        network.call_later(15, lambda: seen.append("never")).cancel()

    network.call(plan)
    assert done.wait(WAIT_S)
    assert seen == ["early", "late"]
    network.close()


def test_cancelled_timers_do_not_pile_up() -> None:
    network = ThreadNetwork("127.0.0.1:1", client_id="test", settings=NetworkSettings())
    network.start()
    seen: list[int] = []
    done = threading.Event()

    def plan() -> None:
        for number in range(20_000):
            timer = network.call_later(3_600_000, done.set)
            if number % 4_000:
                timer.cancel()
            else:
                network.call_later(number // 4_000, lambda number=number: seen.append(number))  # type: ignore[misc]
        network.call_later(20, done.set)

    network.call(plan)
    assert len(network._timers) < 2_000
    assert done.wait(WAIT_S)
    assert seen == [0, 4_000, 8_000, 12_000, 16_000]
    network.close()


def test_brokers_of_the_metadata_are_connected_to(carrier: MakeCarrier) -> None:
    from ottla.protocol.messages.metadata import MetadataResponseBroker

    with peer_with(heartbeat=lambda version: HeartbeatResponse()) as other:
        described = MetadataResponse(brokers=[MetadataResponseBroker(node_id=5, host="127.0.0.1", port=other.port)])
        with peer_with(metadata=lambda version: described) as peer:
            each = carrier(peer.address)
            metadata = each.call(lambda: Metadata(each.network, max_age_ms=300_000, backoff_ms=10))  # type: ignore[arg-type]

            def once(done: Callable[[Any], None]) -> None:
                metadata.on_change.append(lambda: done(dict(metadata.brokers)))
                metadata.request_update()

            assert each.ask(once) == {5: Address("127.0.0.1", other.port)}
            metadata.on_change.clear()
            message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
            answer = each.ask(lambda done: each.network.request(5, message, done))
            assert isinstance(answer, HeartbeatResponse)
            each.call(lambda: metadata.close(ClientClosed("the client is closed")))
