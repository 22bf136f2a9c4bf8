"""Links to brokers under faults: cut in each state, late, throttled, idle, moved; every request is told once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.clients.addresses import Address
from ottla.clients.errors import ClientClosed, ConnectionFailed, RequestTimedOut
from ottla.clients.network.port import ANY_BROKER, coordinator_connection
from ottla.protocol.messages.heartbeat import HeartbeatResponse
from tests.clients.network.scripted_lane import Outcome, ScriptedLane

CUT = "the broker closed the connection"


def lane_with_brokers(count: int = 1, **config: int) -> ScriptedLane:
    lane = ScriptedLane(**config)
    lane.set_brokers({number: Address(f"host{number}", 9092) for number in range(1, count + 1)})
    return lane


def test_a_connection_that_is_refused_fails_what_waits_for_it() -> None:
    lane = lane_with_brokers()
    outcomes = [lane.heartbeat(1), lane.heartbeat(1)]
    lane.advance()
    lane.last.cut("not reached: Connection refused")
    lane.advance()
    for outcome in outcomes:
        assert isinstance(outcome.error, ConnectionFailed)
        assert str(outcome.error) == "host1:9092: not reached: Connection refused; HEARTBEAT was not answered"
    assert lane.lost == [1]


def test_a_connection_cut_while_agreeing_on_versions() -> None:
    lane = lane_with_brokers()
    outcome = lane.heartbeat(1)
    lane.advance()
    lane.last.wire.connected()
    lane.last.cut()
    lane.advance()
    assert CUT in str(outcome.error)


def test_a_connection_cut_with_requests_in_flight() -> None:
    lane = lane_with_brokers()
    first, second = lane.heartbeat(1), lane.heartbeat(1)
    lane.advance()
    lane.last.accept()
    lane.last.answer(HeartbeatResponse())
    assert lane.in_flight(1) == 1
    lane.last.cut()
    lane.advance()
    assert first.is_answered
    assert CUT in str(second.error)
    assert lane.in_flight(1) == 0


def test_a_connection_cut_in_the_middle_of_an_answer() -> None:
    lane = lane_with_brokers()
    outcome = lane.heartbeat(1)
    lane.advance()
    lane.last.accept()
    lane.last.feed(b"\0\0\0\x0b\0\0")
    lane.last.cut()
    lane.advance()
    assert CUT in str(outcome.error)
    again = lane.heartbeat(1)
    lane.advance(100)
    lane.last.accept()
    lane.last.answer(HeartbeatResponse())
    assert again.is_answered


def test_a_connection_cut_while_idle_is_opened_again_by_the_next_request() -> None:
    lane = lane_with_brokers()
    lane.heartbeat(1)
    lane.advance()
    lane.last.accept()
    lane.last.answer(HeartbeatResponse())
    lane.last.cut()
    lane.advance(1_000)
    assert len(lane.channels) == 1
    assert lane.lost == [1]
    outcome = lane.heartbeat(1)
    lane.advance()
    lane.last.accept()
    lane.last.answer(HeartbeatResponse())
    assert outcome.is_answered


def test_waits_between_attempts_grow_to_their_limit_and_start_anew_after_a_success() -> None:
    lane = lane_with_brokers()
    waits = []
    for _ in range(8):
        before, opened = lane.now_ms(), len(lane.channels)
        lane.heartbeat(1)
        while len(lane.channels) == opened:
            lane.advance(1)
            assert lane.now_ms() < before + 2_000
        waits.append(lane.now_ms() - before)
        lane.last.cut()
        lane.advance()
    assert waits[0] <= 1
    for wait, expected in zip(waits[1:], [50, 100, 200, 400, 800, 1_000, 1_000], strict=True):
        assert 0.8 * expected - 1 <= wait <= 1.2 * expected + 1
    lane.heartbeat(1)
    lane.advance(1_300)
    lane.last.accept().cut()
    lane.heartbeat(1)
    lane.advance(62)
    assert not lane.last.is_closed


def test_a_broker_that_takes_the_connection_and_says_nothing_is_given_up() -> None:
    lane = lane_with_brokers(setup_timeout_ms=1_000)
    outcome = lane.heartbeat(1)
    lane.advance()
    lane.last.wire.connected()
    lane.advance(1_200)
    assert str(outcome.error).startswith("host1:9092: not reached: still agreeing on versions")
    assert lane.last.is_closed


def test_an_answer_that_is_late_closes_the_connection_and_is_never_seen() -> None:
    lane = lane_with_brokers()
    late = lane.heartbeat(1, timeout_ms=500)
    behind = lane.heartbeat(1)
    lane.advance()
    channel = lane.last.accept()
    lane.advance(499)
    assert not late.is_done
    lane.advance(1)
    assert isinstance(late.error, RequestTimedOut)
    assert isinstance(late.error, TimeoutError)
    assert str(late.error) == "host1:9092: HEARTBEAT: no answer within 500 ms"
    assert isinstance(behind.error, ConnectionFailed)
    assert channel.is_closed
    channel.feed(b"\0\0\0\x0b\0\0\0\x02")  # nobody listens any more
    next_one = lane.heartbeat(1)
    lane.advance(100)
    lane.last.accept()
    lane.last.answer(HeartbeatResponse())
    assert next_one.is_answered


def test_a_request_that_waits_for_a_connection_runs_out_of_time_alone() -> None:
    lane = lane_with_brokers()
    short, long = lane.heartbeat(1, timeout_ms=500), lane.heartbeat(1, timeout_ms=5_000)
    lane.advance(600)
    assert isinstance(short.error, RequestTimedOut)
    assert "not sent" in str(short.error)
    lane.last.accept()
    lane.last.answer(HeartbeatResponse())
    assert long.is_answered


def test_a_throttle_holds_requests_and_costs_them_no_time() -> None:
    lane = lane_with_brokers()
    lane.heartbeat(1)
    lane.advance()
    channel = lane.last.accept()
    channel.answer(HeartbeatResponse(throttle_time_ms=2_000))
    held = lane.heartbeat(1, timeout_ms=1_000)
    lane.advance(1_999)
    assert channel.requests == []
    assert not held.is_done
    lane.advance(1)
    lane.advance(900)
    assert not held.is_done
    channel.answer(HeartbeatResponse())
    assert held.is_answered


def test_a_throttle_by_whichever_broker_answered_holds_that_one() -> None:
    lane = lane_with_brokers(2)
    lane.heartbeat(1)
    lane.advance()
    lane.last.accept()
    lane.last.answer(HeartbeatResponse())
    lane.heartbeat(ANY_BROKER)
    lane.last.answer(HeartbeatResponse(throttle_time_ms=2_000))
    lane.heartbeat(1)
    assert lane.last.requests == []
    lane.heartbeat(ANY_BROKER)
    lane.advance()
    assert str(lane.last.address) == "host2:9092"


def test_a_connection_cut_while_throttled_fails_what_it_holds() -> None:
    lane = lane_with_brokers()
    lane.heartbeat(1)
    lane.advance()
    lane.last.accept()
    lane.throttle(1, 2_000)
    held = lane.heartbeat(1)
    lane.last.cut()
    lane.advance()
    assert CUT in str(held.error)
    lane.advance(2_000)


def test_an_idle_connection_is_closed_quietly() -> None:
    lane = lane_with_brokers(connections_max_idle_ms=60_000)
    lane.heartbeat(1)
    lane.advance()
    channel = lane.last.accept()
    lane.advance(29_000)
    channel.answer(HeartbeatResponse())
    lane.advance(60_001)
    assert channel.is_closed
    assert lane.lost == []
    outcome = lane.heartbeat(1)
    lane.advance()
    lane.last.accept()
    lane.last.answer(HeartbeatResponse())
    assert outcome.is_answered


def test_requests_go_out_in_the_order_of_the_calls() -> None:
    lane = lane_with_brokers()
    for number in range(5):
        lane.heartbeat(1, group=str(number))
    lane.advance()
    channel = lane.last.accept()
    for number in range(5, 10):
        lane.heartbeat(1, group=str(number))
    assert [message.group_id for _, message in channel.requests] == [str(number) for number in range(10)]


def test_a_coordinator_has_a_connection_of_its_own_to_the_same_broker() -> None:
    lane = lane_with_brokers(2)
    lane.heartbeat(2)
    lane.heartbeat(coordinator_connection(2))
    lane.advance()
    assert [str(channel.address) for channel in lane.channels] == ["host2:9092", "host2:9092"]
    lane.channels[1].cut()
    lane.advance()
    assert lane.lost == [2]


def test_a_broker_that_is_not_in_the_metadata_is_named() -> None:
    lane = lane_with_brokers()
    outcome = lane.heartbeat(7)
    assert not outcome.is_done
    lane.advance()
    assert str(outcome.error) == "broker 7 is not in the metadata"


def test_a_broker_that_moved_is_connected_to_at_its_new_place() -> None:
    lane = lane_with_brokers()
    old = lane.heartbeat(1)
    lane.advance()
    lane.last.accept()
    lane.set_brokers({1: Address("elsewhere", 9092)})
    lane.advance()
    assert "no longer there" in str(old.error)
    lane.heartbeat(1)
    lane.advance()
    assert str(lane.last.address) == "elsewhere:9092"
    assert lane.lost == []


def test_the_next_bootstrap_server_is_tried_when_one_is_not_reached() -> None:
    lane = ScriptedLane("one:1,two:2")
    outcome = lane.heartbeat(ANY_BROKER)
    lane.advance()
    lane.last.cut("not reached: Connection refused")
    lane.advance()
    assert str(lane.last.address) == "two:2"
    lane.last.accept()
    lane.last.answer(HeartbeatResponse())
    assert outcome.is_answered


def test_when_no_bootstrap_server_is_reached_all_of_them_are_named() -> None:
    lane = ScriptedLane("one:1,two:2")
    outcome = lane.heartbeat(ANY_BROKER)
    lane.advance()
    lane.last.cut("not reached: Connection refused")
    lane.advance()
    lane.last.cut("not reached: No route to host")
    lane.advance()
    assert str(outcome.error) == (
        "no broker was reached for HEARTBEAT: one:1: not reached: Connection refused; "
        "two:2: not reached: No route to host"
    )


def test_any_broker_means_a_known_one_with_the_least_to_do() -> None:
    lane = lane_with_brokers(2)
    lane.heartbeat(1)
    lane.heartbeat(2)
    lane.advance()
    for channel in lane.channels:
        channel.accept()
    lane.channels[1].answer(HeartbeatResponse())
    lane.heartbeat(ANY_BROKER)
    assert len(lane.channels[1].requests) == 1
    assert len(lane.channels) == 2


def test_bootstrap_servers_serve_again_when_no_known_broker_can_be_tried() -> None:
    lane = lane_with_brokers(2)
    for number in (1, 2):
        lane.heartbeat(number)
    lane.advance()
    for channel in list(lane.channels):
        channel.cut("not reached: Connection refused")
    lane.advance()
    outcome = lane.heartbeat(ANY_BROKER)
    lane.advance()
    assert str(lane.last.address) == "one:1"
    lane.last.accept()
    lane.last.answer(HeartbeatResponse())
    assert outcome.is_answered


def test_a_request_to_any_broker_that_was_sent_is_not_sent_twice() -> None:
    lane = lane_with_brokers(2)
    outcome = lane.heartbeat(ANY_BROKER)
    lane.advance()
    lane.last.accept().cut()
    lane.advance()
    assert CUT in str(outcome.error)
    assert len(lane.channels) == 1


def test_closing_fails_all_that_is_under_way_and_all_that_comes_after() -> None:
    lane = lane_with_brokers(2)
    sent = lane.heartbeat(1)
    lane.advance()
    lane.last.accept()
    waiting = lane.heartbeat(2)
    lane.brokers.close()
    later = lane.heartbeat(1)
    lane.advance()
    for outcome in (sent, waiting, later):
        assert isinstance(outcome.error, ClientClosed)
    assert all(channel.is_closed for channel in lane.channels)


STEPS = st.sampled_from(["ask", "ask any", "connect", "answer", "cut", "wait", "wait long", "throttle", "move", "late"])


@settings(deadline=None, max_examples=150)
@given(st.lists(STEPS, max_size=60))
def test_every_request_is_told_exactly_once_whatever_happens(steps: list[str]) -> None:
    lane = lane_with_brokers(2, request_timeout_ms=5_000, connections_max_idle_ms=8_000)
    outcomes: list[Outcome] = []
    for number, step in enumerate(steps):
        live = [channel for channel in lane.channels if not channel.is_closed]
        if step == "ask":
            outcomes.append(lane.heartbeat(1 + number % 2))
        elif step == "ask any":
            outcomes.append(lane.heartbeat(ANY_BROKER))
        elif step == "late":
            outcomes.append(lane.heartbeat(1, timeout_ms=100))
        elif step == "wait":
            lane.advance(60)
        elif step == "wait long":
            lane.advance(3_000)
        elif step == "throttle":
            lane.throttle(1, 1_000)
        elif step == "move":
            lane.set_brokers({1: Address("host1", 9092), 2: Address(f"host{number}", 9092)})
        elif live:
            channel = live[number % len(live)]
            is_ready = channel.wire.state.value == "ready"
            if step == "connect" and channel.wire.state.value == "connecting":
                channel.accept()
            elif step == "answer" and is_ready and channel.requests:
                channel.answer(HeartbeatResponse())
            elif step == "cut":
                channel.cut()
    lane.advance(60_000)
    assert all(outcome.is_done for outcome in outcomes)
    assert lane.in_flight(1) == lane.in_flight(2) == 0


@pytest.mark.parametrize("failures", [0, 5, 40, 1_000])
def test_a_wait_never_exceeds_its_limit(failures: int) -> None:
    from ottla.clients.network.link import growing_ms

    assert growing_ms(50, 1_000, failures=failures) <= 1_200
    assert growing_ms(0, 0, failures=failures) == 0
