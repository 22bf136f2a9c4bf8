"""The controller's connections: answers come back, failures are None, its own broker is a call."""

from collections.abc import Callable
from random import Random

import pytest

from ottla.broker.control_link import ControlLinks
from ottla.core.cluster import BrokerInfo
from ottla.core.control import ControlAnswer, ControlledShutdown, ControlledShutdownAnswer, ControlRequest
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.links.addresses import Address
from tests.broker.control_values import broker, leader_and_isr, led_by, stamp, stop, update_metadata
from tests.broker.rig import BROKER_ID, LISTENER, Rig
from tests.broker.rig_links import RigLinks

CONTROLLER_ID = 7
PEER = broker(BROKER_ID)
ADDRESS = Address("broker1.test", 9092)
HERE = led_by(BROKER_ID, isr=(BROKER_ID,))


class Controller:
    """The links of broker 7 to the rig, which is broker 1."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.loop = RigLinks(rig.loop)
        self.loop.rigs[ADDRESS] = rig
        self.answers: list[ControlAnswer | None] = []
        self.handled_here: list[ControlRequest] = []
        self.links = ControlLinks(
            self.loop,
            broker_id=CONTROLLER_ID,
            listener_name=LISTENER,
            handle_here=self._handle_here,
            request_timeout_ms=1000,
            random=Random(1),
        )

    def _handle_here(self, request: ControlRequest, on_answer: Callable[[ControlAnswer], None]) -> None:
        self.handled_here.append(request)
        on_answer(ControlAnswer())

    def send(self, request: ControlRequest, to: BrokerInfo = PEER) -> ControlAnswer | None:
        self.links.send(to, request, self.answers.append)
        self.rig.settle()
        return self.answers.pop()


@pytest.fixture
def controller(rig: Rig) -> Controller:
    rig.core.handlers.serve_brokers()  # as in a cluster
    return Controller(rig)


def test_requests_are_answered_over_one_connection(controller: Controller) -> None:
    assert controller.send(leader_and_isr({0: HERE})) == ControlAnswer()
    assert controller.send(update_metadata()) == ControlAnswer()
    assert controller.send(stop(0, deletes=True)) == ControlAnswer()
    assert controller.send(update_metadata(by=stamp(1))) == ControlAnswer(ErrorCode.STALE_CONTROLLER_EPOCH)
    answer = controller.send(leader_and_isr({0: led_by(BROKER_ID)._replace(replicas=(2,))}))
    assert answer is not None
    assert answer.partitions == {TopicPartition("orders", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert len(controller.loop.channels) == 1


def test_own_broker_is_called_without_a_connection(controller: Controller) -> None:
    request = update_metadata()
    assert controller.send(request, broker(CONTROLLER_ID)) == ControlAnswer()
    assert controller.handled_here == [request]
    assert not controller.loop.channels


def test_broker_that_cannot_be_reached_answers_none(controller: Controller) -> None:
    controller.loop.rigs.clear()
    assert controller.send(update_metadata()) is None
    assert controller.send(update_metadata(), PEER._replace(endpoints=())) is None


def test_lost_connection_answers_none_and_the_next_request_connects_again(controller: Controller) -> None:
    assert controller.send(update_metadata()) == ControlAnswer()
    controller.links.send(PEER, leader_and_isr({0: HERE}), controller.answers.append)
    controller.loop.channels[0].cut()
    assert controller.answers == [None]
    controller.answers.clear()
    controller.links.send(PEER, leader_and_isr({0: HERE}), controller.answers.append)
    controller.rig.advance(200)  # its back-off
    controller.rig.settle()
    assert controller.answers == [ControlAnswer()]
    assert len(controller.loop.channels) == 2


def test_broker_that_does_not_answer_in_time_answers_none(controller: Controller) -> None:
    assert controller.send(update_metadata()) == ControlAnswer()
    controller.links.send(PEER, leader_and_isr({0: HERE}), controller.answers.append)
    controller.rig.turn()
    controller.rig.advance(1100)  # its disk does nothing meanwhile
    controller.rig.turn()
    assert controller.answers == [None]


def test_broker_that_came_back_at_another_address_gets_a_new_connection(controller: Controller) -> None:
    assert controller.send(update_metadata()) == ControlAnswer()
    controller.loop.rigs[Address("broker1.test", 9999)] = controller.rig
    assert controller.send(update_metadata(), broker(BROKER_ID, port=9999)) == ControlAnswer()
    assert [channel.is_closed for channel in controller.loop.channels] == [True, False]


def test_close_answers_what_is_under_way(controller: Controller) -> None:
    assert controller.send(update_metadata()) == ControlAnswer()
    controller.links.send(PEER, leader_and_isr({0: HERE}), controller.answers.append)
    controller.links.close()
    assert controller.answers == [None]
    assert controller.loop.channels[0].is_closed


def test_controlled_shutdown_asks_the_controller(controller: Controller) -> None:
    answers: list[ControlledShutdownAnswer | None] = []
    controller.links.send_shutdown(PEER, ControlledShutdown(CONTROLLER_ID, 3), answers.append)
    controller.rig.settle()
    assert answers == [ControlledShutdownAnswer(ErrorCode.NOT_CONTROLLER)]
