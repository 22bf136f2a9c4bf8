"""The channel to a broker: order, batches, one request in flight, and what becomes of one that fails."""

from collections.abc import Callable
from itertools import count

from ottla.controller.broker_channels import BrokerChannel
from ottla.controller.ports import ControllerPorts
from ottla.core.cluster import BrokerInfo, PartitionState, TopicImage
from ottla.core.control import (
    ControlAnswer,
    ControlRequest,
    ControlStamp,
    LeaderAndIsr,
    StoppedReplica,
    StopReplicas,
    UpdateMetadata,
)
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, TopicPartition
from tests.controller.answering_cluster import ManualLoop

BROKER = BrokerInfo(2, (), None, 5)
STATE = PartitionState(2, 0, (2,), (2,))
ORDERS = TopicImage("orders", bytes(16), {}, {0: STATE, 1: STATE})


class Desk:
    """A channel whose requests the test answers."""

    def __init__(self) -> None:
        self.loop = ManualLoop()
        self.sent: list[ControlRequest] = []
        self._answers: list[Callable[[ControlAnswer | None], None]] = []
        self.answered: list[tuple[BrokerId, ControlRequest, ControlAnswer]] = []
        ports = ControllerPorts(lambda: 0, self.loop.call_soon, self.loop.call_later, bytes, self)
        self.channel = BrokerChannel(
            BROKER,
            ControlStamp(1, 3, BROKER.epoch),
            ports,
            lambda: (BROKER,),
            lambda *answer: self.answered.append(answer),
            count(1).__next__,
        )

    def send(
        self, broker: BrokerInfo, request: ControlRequest, on_answer: Callable[[ControlAnswer | None], None]
    ) -> None:
        assert broker == BROKER
        self.sent.append(request)
        self._answers.append(on_answer)

    def answer(self, answer: ControlAnswer | None = ControlAnswer()) -> None:  # noqa: B008
        self._answers.pop(0)(answer)

    def turn(self) -> None:
        self.loop.run_for(0)

    def lead(self, partition: int, state: PartitionState = STATE, *, is_new: bool = False) -> None:
        self.channel.batch_for("orders").lead(ORDERS, partition, state, is_new=is_new)


def test_what_one_turn_says_is_three_requests_one_after_the_other() -> None:
    desk = Desk()
    desk.lead(0)
    desk.channel.batch_for("orders").show(ORDERS, {0: STATE})
    desk.lead(1)
    desk.channel.batch_for().stop(StoppedReplica(TopicPartition("gone", 0), 1, deletes=True))
    assert not desk.sent
    desk.turn()
    (first,) = desk.sent
    assert isinstance(first, LeaderAndIsr)
    assert [found.partition for found in first.topics[0].partitions] == [0, 1]
    assert first.stamp == ControlStamp(1, 3, 5, number=1)
    desk.answer()
    assert isinstance(desk.sent[1], UpdateMetadata)
    assert desk.sent[1].brokers == (BROKER,)
    desk.answer()
    assert isinstance(desk.sent[2], StopReplicas)
    desk.answer()
    assert len(desk.sent) == len(desk.answered) == 3


def test_later_state_replaces_one_that_was_not_sent_and_the_partition_stays_new() -> None:
    desk = Desk()
    desk.lead(0, is_new=True)
    desk.turn()
    desk.lead(1, is_new=True)
    desk.lead(1, STATE._replace(leader_epoch=1))
    desk.turn()
    desk.answer()
    second = desk.sent[1]
    assert isinstance(second, LeaderAndIsr)
    (partition,) = second.topics[0].partitions
    assert (partition.partition, partition.state.leader_epoch, partition.is_new) == (1, 1, True)


def test_failed_request_is_sent_again_before_anything_else() -> None:
    desk = Desk()
    desk.lead(0)
    desk.turn()
    desk.lead(1)
    desk.answer(None)
    desk.turn()
    assert len(desk.sent) == 1
    desk.loop.run_for(0.06)
    assert desk.sent[1] is desk.sent[0]
    desk.answer(ControlAnswer(ErrorCode.STALE_BROKER_EPOCH))  # it does not know its new epoch yet
    desk.loop.run_for(0.11)
    assert desk.sent[2] is desk.sent[0]
    desk.answer()
    assert desk.sent[3] is not desk.sent[0]
    assert len(desk.answered) == 1


def test_topic_made_anew_is_sent_after_its_removal() -> None:
    desk = Desk()
    desk.lead(0)
    desk.turn()
    desk.channel.batch_for().hide("orders")
    desk.channel.batch_for().stop(StoppedReplica(TopicPartition("orders", 0), 0, deletes=True))
    desk.lead(0, is_new=True)
    desk.channel.batch_for("orders").show(ORDERS, {0: STATE})
    for _ in range(5):
        desk.answer()
    hidden, stopped, led, shown = desk.sent[1:]
    assert isinstance(hidden, UpdateMetadata)
    assert hidden.deleted == ("orders",)
    assert isinstance(stopped, StopReplicas)
    assert isinstance(led, LeaderAndIsr)
    assert isinstance(shown, UpdateMetadata)
    assert not shown.deleted


def test_who_waits_hears_when_it_is_applied_or_the_broker_is_gone() -> None:
    desk = Desk()
    heard: list[str] = []
    desk.lead(0)
    desk.channel.batch_for().when_applied.append(lambda: heard.append("first"))
    desk.channel.batch_for().stop(StoppedReplica(TopicPartition("gone", 0), 1, deletes=True))
    desk.turn()
    assert not heard
    desk.answer()
    assert heard == ["first"]
    desk.lead(1)
    desk.channel.batch_for().when_applied.append(lambda: heard.append("second"))
    desk.channel.close()
    assert heard == ["first", "second"]
    desk.answer()
    assert len(desk.sent) == 2


def test_answers_inside_the_call_are_no_recursion() -> None:
    desk = Desk()
    depth_max = 0
    depth = 0

    def send(broker: BrokerInfo, request: ControlRequest, on_answer: Callable[[ControlAnswer | None], None]) -> None:
        nonlocal depth, depth_max
        depth += 1
        depth_max = max(depth_max, depth)
        desk.sent.append(request)
        on_answer(ControlAnswer())
        depth -= 1

    desk.send = send  # type: ignore[method-assign]
    for _ in range(100):
        desk.lead(0)
        desk.channel.seal()
    desk.turn()
    assert len(desk.sent) == 100
    assert depth_max == 1
