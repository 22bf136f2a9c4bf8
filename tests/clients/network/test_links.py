"""Links to brokers under faults: cut in each state, late, throttled, idle, moved; every request is told once."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.clients.errors import ClientClosed, ConnectionFailed, RequestTimedOut
from ottla.clients.network.port import ANY_BROKER, coordinator_connection
from ottla.links.addresses import Address
from ottla.protocol.messages.heartbeat import HeartbeatResponse
from tests.clients.network.scripted_loop import Outcome, ScriptedLoop

CUT = "the broker closed the connection"


def loop_with_brokers(count: int = 1, **config: int) -> ScriptedLoop:
    loop = ScriptedLoop(**config)
    loop.set_brokers({number: Address(f"host{number}", 9092) for number in range(1, count + 1)})
    return loop


def test_a_connection_that_is_refused_fails_what_waits_for_it() -> None:
    loop = loop_with_brokers()
    outcomes = [loop.heartbeat(1), loop.heartbeat(1)]
    loop.advance()
    loop.last.cut("not reached: Connection refused")
    loop.advance()
    for outcome in outcomes:
        assert isinstance(outcome.error, ConnectionFailed)
        assert str(outcome.error) == "host1:9092: not reached: Connection refused; HEARTBEAT was not answered"
    assert loop.lost == [1]


def test_a_connection_cut_while_agreeing_on_versions() -> None:
    loop = loop_with_brokers()
    outcome = loop.heartbeat(1)
    loop.advance()
    loop.last.wire.connected()
    loop.last.cut()
    loop.advance()
    assert CUT in str(outcome.error)


def test_a_connection_cut_with_requests_in_flight() -> None:
    loop = loop_with_brokers()
    first, second = loop.heartbeat(1), loop.heartbeat(1)
    loop.advance()
    loop.last.accept()
    loop.last.answer(HeartbeatResponse())
    assert loop.in_flight(1) == 1
    loop.last.cut()
    loop.advance()
    assert first.is_answered
    assert CUT in str(second.error)
    assert loop.in_flight(1) == 0


def test_a_connection_cut_in_the_middle_of_an_answer() -> None:
    loop = loop_with_brokers()
    outcome = loop.heartbeat(1)
    loop.advance()
    loop.last.accept()
    loop.last.feed(b"\0\0\0\x0b\0\0")
    loop.last.cut()
    loop.advance()
    assert CUT in str(outcome.error)
    again = loop.heartbeat(1)
    loop.advance(100)
    loop.last.accept()
    loop.last.answer(HeartbeatResponse())
    assert again.is_answered


def test_a_connection_cut_while_idle_is_opened_again_by_the_next_request() -> None:
    loop = loop_with_brokers()
    loop.heartbeat(1)
    loop.advance()
    loop.last.accept()
    loop.last.answer(HeartbeatResponse())
    loop.last.cut()
    loop.advance(1_000)
    assert len(loop.channels) == 1
    assert loop.lost == [1]
    outcome = loop.heartbeat(1)
    loop.advance()
    loop.last.accept()
    loop.last.answer(HeartbeatResponse())
    assert outcome.is_answered


def test_waits_between_attempts_grow_to_their_limit_and_start_anew_after_a_success() -> None:
    loop = loop_with_brokers()
    waits = []
    for _ in range(8):
        before, opened = loop.now_ms(), len(loop.channels)
        loop.heartbeat(1)
        while len(loop.channels) == opened:
            loop.advance(1)
            assert loop.now_ms() < before + 2_000
        waits.append(loop.now_ms() - before)
        loop.last.cut()
        loop.advance()
    assert waits[0] <= 1
    for wait, expected in zip(waits[1:], [50, 100, 200, 400, 800, 1_000, 1_000], strict=True):
        assert 0.8 * expected - 1 <= wait <= 1.2 * expected + 1
    loop.heartbeat(1)
    loop.advance(1_300)
    loop.last.accept().cut()
    loop.heartbeat(1)
    loop.advance(62)
    assert not loop.last.is_closed


def test_a_broker_that_takes_the_connection_and_says_nothing_is_given_up() -> None:
    loop = loop_with_brokers(setup_timeout_ms=1_000)
    outcome = loop.heartbeat(1)
    loop.advance()
    loop.last.wire.connected()
    loop.advance(1_200)
    assert str(outcome.error).startswith("host1:9092: not reached: still negotiating versions")
    assert loop.last.is_closed


def test_an_answer_that_is_late_closes_the_connection_and_is_never_seen() -> None:
    loop = loop_with_brokers()
    late = loop.heartbeat(1, timeout_ms=500)
    behind = loop.heartbeat(1)
    loop.advance()
    channel = loop.last.accept()
    loop.advance(499)
    assert not late.is_done
    loop.advance(1)
    assert isinstance(late.error, RequestTimedOut)
    assert isinstance(late.error, TimeoutError)
    assert str(late.error) == "host1:9092: HEARTBEAT: no answer within 500 ms"
    assert isinstance(behind.error, ConnectionFailed)
    assert channel.is_closed
    channel.feed(b"\0\0\0\x0b\0\0\0\x02")  # nobody listens any more
    next_one = loop.heartbeat(1)
    loop.advance(100)
    loop.last.accept()
    loop.last.answer(HeartbeatResponse())
    assert next_one.is_answered


def test_a_request_that_waits_for_a_connection_runs_out_of_time_alone() -> None:
    loop = loop_with_brokers()
    short, long = loop.heartbeat(1, timeout_ms=500), loop.heartbeat(1, timeout_ms=5_000)
    loop.advance(600)
    assert isinstance(short.error, RequestTimedOut)
    assert "not sent" in str(short.error)
    loop.last.accept()
    loop.last.answer(HeartbeatResponse())
    assert long.is_answered


def test_a_throttle_holds_requests_and_costs_them_no_time() -> None:
    loop = loop_with_brokers()
    loop.heartbeat(1)
    loop.advance()
    channel = loop.last.accept()
    channel.answer(HeartbeatResponse(throttle_time_ms=2_000))
    held = loop.heartbeat(1, timeout_ms=1_000)
    loop.advance(1_999)
    assert channel.requests == []
    assert not held.is_done
    loop.advance(1)
    loop.advance(900)
    assert not held.is_done
    channel.answer(HeartbeatResponse())
    assert held.is_answered


def test_a_throttle_by_whichever_broker_answered_holds_that_one() -> None:
    loop = loop_with_brokers(2)
    loop.heartbeat(1)
    loop.advance()
    loop.last.accept()
    loop.last.answer(HeartbeatResponse())
    loop.heartbeat(ANY_BROKER)
    loop.last.answer(HeartbeatResponse(throttle_time_ms=2_000))
    loop.heartbeat(1)
    assert loop.last.requests == []
    loop.heartbeat(ANY_BROKER)
    loop.advance()
    assert str(loop.last.address) == "host2:9092"


def test_a_connection_cut_while_throttled_fails_what_it_holds() -> None:
    loop = loop_with_brokers()
    loop.heartbeat(1)
    loop.advance()
    loop.last.accept()
    loop.throttle(1, 2_000)
    held = loop.heartbeat(1)
    loop.last.cut()
    loop.advance()
    assert CUT in str(held.error)
    loop.advance(2_000)


def test_an_idle_connection_is_closed_quietly() -> None:
    loop = loop_with_brokers(connections_max_idle_ms=60_000)
    loop.heartbeat(1)
    loop.advance()
    channel = loop.last.accept()
    loop.advance(29_000)
    channel.answer(HeartbeatResponse())
    loop.advance(60_001)
    assert channel.is_closed
    assert loop.lost == []
    outcome = loop.heartbeat(1)
    loop.advance()
    loop.last.accept()
    loop.last.answer(HeartbeatResponse())
    assert outcome.is_answered


def test_requests_go_out_in_the_order_of_the_calls() -> None:
    loop = loop_with_brokers()
    for number in range(5):
        loop.heartbeat(1, group=str(number))
    loop.advance()
    channel = loop.last.accept()
    for number in range(5, 10):
        loop.heartbeat(1, group=str(number))
    assert [message.group_id for _, message in channel.requests] == [str(number) for number in range(10)]


def test_a_coordinator_has_a_connection_of_its_own_to_the_same_broker() -> None:
    loop = loop_with_brokers(2)
    loop.heartbeat(2)
    loop.heartbeat(coordinator_connection(2))
    loop.advance()
    assert [str(channel.address) for channel in loop.channels] == ["host2:9092", "host2:9092"]
    loop.channels[1].cut()
    loop.advance()
    assert loop.lost == [2]


def test_a_broker_that_is_not_in_the_metadata_is_named() -> None:
    loop = loop_with_brokers()
    outcome = loop.heartbeat(7)
    assert not outcome.is_done
    loop.advance()
    assert str(outcome.error) == "broker 7 is not in the metadata"


def test_a_broker_that_moved_is_connected_to_at_its_new_place() -> None:
    loop = loop_with_brokers()
    old = loop.heartbeat(1)
    loop.advance()
    loop.last.accept()
    loop.set_brokers({1: Address("elsewhere", 9092)})
    loop.advance()
    assert "no longer at this address" in str(old.error)
    loop.heartbeat(1)
    loop.advance()
    assert str(loop.last.address) == "elsewhere:9092"
    assert loop.lost == []


def test_the_next_bootstrap_server_is_tried_when_one_is_not_reached() -> None:
    loop = ScriptedLoop("one:1,two:2")
    outcome = loop.heartbeat(ANY_BROKER)
    loop.advance()
    loop.last.cut("not reached: Connection refused")
    loop.advance()
    assert str(loop.last.address) == "two:2"
    loop.last.accept()
    loop.last.answer(HeartbeatResponse())
    assert outcome.is_answered


def test_when_no_bootstrap_server_is_reached_all_of_them_are_named() -> None:
    loop = ScriptedLoop("one:1,two:2")
    outcome = loop.heartbeat(ANY_BROKER)
    loop.advance()
    loop.last.cut("not reached: Connection refused")
    loop.advance()
    loop.last.cut("not reached: No route to host")
    loop.advance()
    assert str(outcome.error) == (
        "no broker was reached for HEARTBEAT: one:1: not reached: Connection refused; "
        "two:2: not reached: No route to host"
    )


def test_any_broker_means_a_known_one_with_the_least_to_do() -> None:
    loop = loop_with_brokers(2)
    loop.heartbeat(1)
    loop.heartbeat(2)
    loop.advance()
    for channel in loop.channels:
        channel.accept()
    loop.channels[1].answer(HeartbeatResponse())
    loop.heartbeat(ANY_BROKER)
    assert len(loop.channels[1].requests) == 1
    assert len(loop.channels) == 2


def test_bootstrap_servers_serve_again_when_no_known_broker_can_be_tried() -> None:
    loop = loop_with_brokers(2)
    for number in (1, 2):
        loop.heartbeat(number)
    loop.advance()
    for channel in list(loop.channels):
        channel.cut("not reached: Connection refused")
    loop.advance()
    outcome = loop.heartbeat(ANY_BROKER)
    loop.advance()
    assert str(loop.last.address) == "one:1"
    loop.last.accept()
    loop.last.answer(HeartbeatResponse())
    assert outcome.is_answered


def test_a_request_to_any_broker_that_was_sent_is_not_sent_twice() -> None:
    loop = loop_with_brokers(2)
    outcome = loop.heartbeat(ANY_BROKER)
    loop.advance()
    loop.last.accept().cut()
    loop.advance()
    assert CUT in str(outcome.error)
    assert len(loop.channels) == 1


def test_closing_fails_all_that_is_under_way_and_all_that_comes_after() -> None:
    loop = loop_with_brokers(2)
    sent = loop.heartbeat(1)
    loop.advance()
    loop.last.accept()
    waiting = loop.heartbeat(2)
    loop.brokers.close()
    later = loop.heartbeat(1)
    loop.advance()
    for outcome in (sent, waiting, later):
        assert isinstance(outcome.error, ClientClosed)
    assert all(channel.is_closed for channel in loop.channels)


STEPS = st.sampled_from(["ask", "ask any", "connect", "answer", "cut", "wait", "wait long", "throttle", "move", "late"])


@settings(deadline=None, max_examples=150)
@given(st.lists(STEPS, max_size=60))
def test_every_request_is_told_exactly_once_whatever_happens(steps: list[str]) -> None:
    loop = loop_with_brokers(2, request_timeout_ms=5_000, connections_max_idle_ms=8_000)
    outcomes: list[Outcome] = []
    for number, step in enumerate(steps):
        live = [channel for channel in loop.channels if not channel.is_closed]
        if step == "ask":
            outcomes.append(loop.heartbeat(1 + number % 2))
        elif step == "ask any":
            outcomes.append(loop.heartbeat(ANY_BROKER))
        elif step == "late":
            outcomes.append(loop.heartbeat(1, timeout_ms=100))
        elif step == "wait":
            loop.advance(60)
        elif step == "wait long":
            loop.advance(3_000)
        elif step == "throttle":
            loop.throttle(1, 1_000)
        elif step == "move":
            loop.set_brokers({1: Address("host1", 9092), 2: Address(f"host{number}", 9092)})
        elif live:
            channel = live[number % len(live)]
            is_ready = channel.wire.state.value == "ready"
            if step == "connect" and channel.wire.state.value == "connecting":
                channel.accept()
            elif step == "answer" and is_ready and channel.requests:
                channel.answer(HeartbeatResponse())
            elif step == "cut":
                channel.cut()
    loop.advance(60_000)
    assert all(outcome.is_done for outcome in outcomes)
    assert loop.in_flight(1) == loop.in_flight(2) == 0
