"""The proxy's decisions, on fake sockets and a fake clock."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import decode_response, encode_request, encode_response
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.testing.error_answers import BrokerIdentity
from ottla.testing.faults import CutNext, Delay, FailNext, FaultBoard, Hold, Moment
from ottla.testing.relay import Relay


class Ends:
    identity = BrokerIdentity(1, "cluster", "127.0.0.1", 9092)

    def __init__(self) -> None:
        self.to_broker = b""
        self.to_client = b""
        self.is_cut = False
        self.time = 100.0
        self.timer: float | None = None

    def send_to_broker(self, data: bytes) -> None:
        self.to_broker += data

    def send_to_client(self, data: bytes) -> None:
        self.to_client += data

    def cut(self) -> None:
        self.is_cut = True

    def now(self) -> float:
        return self.time

    def call_at(self, when: float) -> None:
        self.timer = when

    def take_to_broker(self) -> bytes:
        taken, self.to_broker = self.to_broker, b""
        return taken

    def take_to_client(self) -> bytes:
        taken, self.to_client = self.to_client, b""
        return taken


class Connection:
    """A client and a broker with a relay in between."""

    def __init__(self) -> None:
        self.board = FaultBoard(lambda function: function())
        self.ends = Ends()
        self.relay = Relay(self.board, self.ends)
        self.board.connections.add(self.relay)

    def ask(self, request: bytes) -> bytes:
        """What the broker gets, at once, after a request."""
        self.relay.take_from_client(request)
        return self.ends.take_to_broker()

    def answer(self, response: bytes) -> bytes:
        """What the client gets, at once, after an answer of the broker."""
        self.relay.take_from_broker(response)
        return self.ends.take_to_client()

    def delay(self, delay_ms: float, api: ApiKey | None = None) -> Delay:
        return self.board.add(Delay(self.board, api, None, delay_ms=delay_ms))

    def hold(self, api: ApiKey, *, answers: bool = False, client_id: str | None = None) -> Hold:
        return self.board.add(Hold(self.board, api, client_id, answers=answers))

    def fail(self, api: ApiKey, error: ErrorCode, *, count: int = 1, applied: bool = False) -> FailNext:
        return self.board.add(FailNext(self.board, api, None, count=count, error=error, applied=applied))

    def cut(self, api: ApiKey, when: Moment) -> CutNext:
        return self.board.add(CutNext(self.board, api, None, count=1, when=when))


@pytest.fixture
def connection() -> Connection:
    return Connection()


def heartbeat(number: int, client_id: str = "c") -> bytes:
    return encode_request(HeartbeatRequest(group_id="g", member_id="m"), 3, number, client_id)


def heartbeat_answer(number: int) -> bytes:
    return encode_response(HeartbeatResponse(), 3, number)


def list_groups(number: int) -> bytes:
    return encode_request(ListGroupsRequest(), 2, number, "c")


def list_groups_answer(number: int) -> bytes:
    return encode_response(ListGroupsResponse(), 2, number)


def produce(number: int, *, acks: int, version: int = 9) -> bytes:
    partitions = [PartitionProduceData(index=0, records=b"")]
    request = ProduceRequest(acks=acks, topic_data=[TopicProduceData(name="t", partition_data=partitions)])
    return encode_request(request, version, number, "c")


def read(response_class: type[ApiMessage], version: int, frame: bytes) -> tuple[int, Any]:
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return decode_response(response_class, version, frame[4:])


def test_without_faults_every_byte_passes_unchanged(connection: Connection) -> None:
    asked = heartbeat(1) + list_groups(2)
    passed = b"".join(connection.ask(asked[at : at + 7]) for at in range(0, len(asked), 7))
    assert passed == asked
    answered = heartbeat_answer(1) + list_groups_answer(2)
    assert connection.answer(answered[:9]) + connection.answer(answered[9:]) == answered
    assert [seen.api for seen in connection.board.seen] == [ApiKey.HEARTBEAT, ApiKey.LIST_GROUPS]


def test_a_failed_request_does_not_reach_the_broker_and_the_next_one_does(connection: Connection) -> None:
    fault = connection.fail(ApiKey.HEARTBEAT, ErrorCode.REBALANCE_IN_PROGRESS)
    assert connection.ask(heartbeat(1)) == b""
    correlation_id, response = read(HeartbeatResponse, 3, connection.ends.take_to_client())
    assert (correlation_id, response.error_code, fault.used) == (1, 27, 1)
    assert connection.ask(heartbeat(2)) == heartbeat(2)
    assert connection.board.faults == []


def test_an_answer_that_is_made_waits_for_the_earlier_ones(connection: Connection) -> None:
    connection.fail(ApiKey.HEARTBEAT, ErrorCode.REBALANCE_IN_PROGRESS)
    assert connection.ask(list_groups(1) + heartbeat(2) + list_groups(3)) == list_groups(1) + list_groups(3)
    assert connection.ends.to_client == b""
    out = connection.answer(list_groups_answer(1))
    assert out.startswith(list_groups_answer(1))
    assert read(HeartbeatResponse, 3, out[len(list_groups_answer(1)) :])[1].error_code == 27
    assert connection.answer(list_groups_answer(3)) == list_groups_answer(3)


def test_a_request_that_is_applied_reaches_the_broker_and_its_answer_is_replaced(connection: Connection) -> None:
    connection.fail(ApiKey.HEARTBEAT, ErrorCode.REQUEST_TIMED_OUT, applied=True)
    assert connection.ask(heartbeat(1)) == heartbeat(1)
    assert connection.ends.to_client == b""
    assert read(HeartbeatResponse, 3, connection.answer(heartbeat_answer(1)))[1].error_code == 7


def test_a_cut_before_keeps_the_request_from_the_broker(connection: Connection) -> None:
    connection.cut(ApiKey.HEARTBEAT, "before")
    assert connection.ask(list_groups(1) + heartbeat(2)) == list_groups(1)
    assert connection.ends.is_cut


def test_a_cut_after_lets_the_broker_act_and_the_client_hear_nothing(connection: Connection) -> None:
    connection.cut(ApiKey.HEARTBEAT, "after")
    assert connection.ask(heartbeat(1)) == heartbeat(1)
    assert not connection.ends.is_cut
    assert connection.answer(heartbeat_answer(1)) == b""
    assert connection.ends.is_cut


def test_a_delayed_request_waits_and_those_behind_it_too(connection: Connection) -> None:
    connection.delay(250, ApiKey.HEARTBEAT)
    assert connection.ask(heartbeat(1) + list_groups(2)) == b""
    assert connection.ends.timer == 100.25
    connection.ends.time = 100.25
    connection.relay.pump()
    assert connection.ends.take_to_broker() == heartbeat(1) + list_groups(2)


def test_delays_of_pipelined_requests_run_side_by_side(connection: Connection) -> None:
    connection.delay(250)
    connection.ask(heartbeat(1))
    connection.ends.time = 100.1
    connection.ask(heartbeat(2))
    connection.ends.time = 100.35
    connection.relay.pump()
    assert connection.ends.take_to_broker() == heartbeat(1) + heartbeat(2)


def test_held_requests_go_on_in_order_when_released(connection: Connection) -> None:
    hold = connection.hold(ApiKey.HEARTBEAT)
    assert connection.ask(list_groups(1) + heartbeat(2) + list_groups(3)) == list_groups(1)
    assert hold.used == 1
    hold.release()
    assert connection.ends.take_to_broker() == heartbeat(2) + list_groups(3)


def test_a_fault_that_comes_while_a_request_is_held_meets_it(connection: Connection) -> None:
    hold = connection.hold(ApiKey.HEARTBEAT)
    connection.ask(heartbeat(1))
    connection.fail(ApiKey.HEARTBEAT, ErrorCode.REBALANCE_IN_PROGRESS)
    hold.release()
    assert connection.ends.take_to_broker() == b""
    assert read(HeartbeatResponse, 3, connection.ends.take_to_client())[1].error_code == 27


def test_held_answers_leave_the_broker_to_act(connection: Connection) -> None:
    hold = connection.hold(ApiKey.HEARTBEAT, answers=True)
    assert connection.ask(heartbeat(1) + list_groups(2)) == heartbeat(1) + list_groups(2)
    assert connection.answer(heartbeat_answer(1) + list_groups_answer(2)) == b""
    hold.release()
    assert connection.ends.take_to_client() == heartbeat_answer(1) + list_groups_answer(2)


def test_a_fault_of_one_client_leaves_others_alone(connection: Connection) -> None:
    connection.hold(ApiKey.HEARTBEAT, client_id="other")
    assert connection.ask(heartbeat(1, "c")) == heartbeat(1, "c")
    assert connection.ask(heartbeat(2, "other")) == b""


def test_clearing_takes_every_fault_back(connection: Connection) -> None:
    connection.hold(ApiKey.HEARTBEAT)
    connection.fail(ApiKey.LIST_GROUPS, ErrorCode.REQUEST_TIMED_OUT)
    connection.ask(heartbeat(1))
    connection.board.clear()
    assert connection.ends.take_to_broker() == heartbeat(1)
    assert connection.ask(list_groups(2)) == list_groups(2)


@pytest.mark.parametrize("version", [3, 9])
def test_a_produce_without_acks_awaits_no_answer(connection: Connection, version: int) -> None:
    asked = produce(1, acks=0, version=version) + heartbeat(2)
    assert connection.ask(asked) == asked
    assert connection.answer(heartbeat_answer(2)) == heartbeat_answer(2)


def test_a_failed_produce_without_acks_loses_its_connection(connection: Connection) -> None:
    connection.fail(ApiKey.PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert connection.ask(produce(1, acks=0)) == b""
    assert connection.ends.is_cut
    assert connection.ends.to_client == b""


def test_a_fetch_session_is_ended_before_its_fetch_fails(connection: Connection) -> None:
    fault = connection.fail(ApiKey.FETCH, ErrorCode.OFFSET_OUT_OF_RANGE)
    going_on = encode_request(FetchRequest(session_id=5, session_epoch=1), 12, 1, "c")
    assert connection.ask(going_on) == b""
    assert read(FetchResponse, 12, connection.ends.take_to_client())[1].error_code == 70
    assert fault.used == 0
    topics = [FetchTopic(topic="t", partitions=[FetchPartition(partition=0)])]
    connection.ask(encode_request(FetchRequest(session_id=0, session_epoch=0, topics=topics), 12, 2, "c"))
    response = read(FetchResponse, 12, connection.ends.take_to_client())[1]
    assert response.responses[0].partitions[0].error_code == 1
    assert fault.used == 1


def test_what_is_no_kafka_passes_untouched(connection: Connection) -> None:
    connection.fail(ApiKey.HEARTBEAT, ErrorCode.REQUEST_TIMED_OUT)
    hello = b"\x80\x03\x01TLS hello"
    assert connection.ask(hello) == hello
    assert connection.answer(b"alert") == b"alert"
    assert connection.ask(b"more") == b"more"


def test_a_request_of_an_unknown_api_is_the_brokers_to_refuse(connection: Connection) -> None:
    connection.cut(ApiKey.HEARTBEAT, "before")
    strange = b"\0\0\0\x0a" + b"\x7f\xff" + bytes(8)
    assert connection.ask(strange) == strange
