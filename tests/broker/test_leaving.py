"""A broker that stops: it asks the controller, again if need be, and stops in any case."""

from collections.abc import Callable

from ottla.broker.leaving import LeavingPorts, leave
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.steps import Running
from ottla.core.cluster import BrokerInfo
from ottla.core.config.config import BrokerConfig
from ottla.core.control import ControlledShutdown, ControlledShutdownAnswer
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from tests.broker.control_values import OTHER, broker
from tests.broker.rig import BROKER_ID
from tests.storage.hand_driven import HandLoop

REQUEST = ControlledShutdown(BROKER_ID, 4)
DONE = ControlledShutdownAnswer()
LEFT = ControlledShutdownAnswer(ErrorCode.NONE, (TopicPartition("orders", 0),))
Answers = list[ControlledShutdownAnswer | None]


class Leaving:
    """Broker 1 leaves a cluster whose controller is broker 2 or itself, and gives these answers."""

    def __init__(self, answers: Answers, *, controller_id: int = OTHER, is_alone: bool = False, **keys: str) -> None:
        self.is_registered = True
        self.loop = HandLoop()
        self.asked: list[object] = []
        self.ends: list[bool | None] = []
        self._answers = answers
        cache = MetadataCache("cluster")
        cache.controller_id = controller_id
        cache.put_brokers([broker(BROKER_ID)] if is_alone else [broker(BROKER_ID), broker(OTHER)])
        properties = {key.replace("_", "."): value for key, value in keys.items()}
        config = BrokerConfig.parse({"controlled.shutdown.retry.backoff.ms": "100", **properties})
        ports = LeavingPorts(self._send, self._begin_here, self._call_later, lambda: self.is_registered)
        Running(leave(REQUEST, config, cache, ports), lambda result, _: self.ends.append(result))

    def _send(self, to: BrokerInfo, request: ControlledShutdown, on_answer: Callable[..., None]) -> None:
        self.asked.append((to.broker_id, request))
        on_answer(self._answers.pop(0))

    def _begin_here(self, request: ControlledShutdown, on_answer: Callable[..., None]) -> None:
        self.asked.append(("here", request))
        on_answer(self._answers.pop(0))

    def _call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self.loop.call_at(self.loop.now + delay_ms / 1000, callback)


def test_broker_that_leads_nothing_any_more_stops() -> None:
    leaving = Leaving([DONE])
    assert leaving.asked == [(OTHER, REQUEST)]
    assert leaving.ends == [True]


def test_it_asks_again_while_something_is_left() -> None:
    leaving = Leaving([LEFT, None, ControlledShutdownAnswer(ErrorCode.NOT_CONTROLLER), DONE])
    assert leaving.ends == []
    leaving.loop.run_for(1000)
    assert len(leaving.asked) == 4
    assert leaving.ends == [True]


def test_it_gives_up_after_its_retries() -> None:
    leaving = Leaving([LEFT, LEFT, LEFT], controlled_shutdown_max_retries="2")
    leaving.loop.run_for(1000)
    assert leaving.ends == [False]
    assert len(leaving.asked) == 3


def test_controller_asks_itself() -> None:
    leaving = Leaving([DONE], controller_id=BROKER_ID)
    assert leaving.asked == [("here", REQUEST)]
    assert leaving.ends == [True]


def test_without_a_controller_it_stops_after_its_retries() -> None:
    leaving = Leaving([], controller_id=-1)
    leaving.loop.run_for(1000)
    assert (leaving.asked, leaving.ends) == ([], [False])


def test_broker_that_is_alone_or_must_not_ask_stops_at_once() -> None:
    for leaving in (
        Leaving([], is_alone=True, controller_id=BROKER_ID),
        Leaving([], controlled_shutdown_enable="false"),
    ):
        assert (leaving.asked, leaving.ends) == ([], [False])


def test_broker_whose_session_has_ended_asks_no_more() -> None:
    leaving = Leaving([LEFT])
    leaving.is_registered = False
    leaving.loop.run_for(1000)
    assert len(leaving.asked) == 1
    assert leaving.ends == [True]
