"""A broker alone on its embedded store: the same controller, with what the broker has loaded already."""

from collections.abc import Callable
from random import Random

import pytest

from ottla.controller.controller import Controller
from ottla.controller.new_topics import NewTopic
from ottla.controller.ports import ControllerPorts
from ottla.controller.state import StoredBrokerConfigs
from ottla.controller.term import Alone
from ottla.controller.topic_faults import TopicFault
from ottla.coordination import paths
from ottla.core.cluster import BrokerInfo, TopicImage
from ottla.core.config.config import BrokerConfig
from ottla.core.config.current import CurrentConfig
from ottla.core.control import ControlAnswer, ControlRequest, LeaderAndIsr, StopReplicas, UpdateMetadata
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from tests.controller.pumped_store import PumpedStore

BROKER = BrokerInfo(1, (), None, 0)


class Lone:
    """A controller whose link calls the broker directly."""

    def __init__(self, pump: PumpedStore) -> None:
        self.pump = pump
        self.sent: list[ControlRequest] = []
        self.epochs: list[int] = []
        self.resigned = 0
        self.controller = Controller(
            pump.store,
            ControllerPorts(lambda: 7, pump.post, lambda _, callback: pump.post(callback), Random(1).randbytes, self),
            CurrentConfig(BrokerConfig.parse({"log.dirs": "/data"})),
            broker_id=1,
            stored_configs=lambda: StoredBrokerConfigs({}, {}),
            on_elected=self.epochs.append,
            on_resigned=self.on_resigned,
        )

    def on_resigned(self) -> None:
        self.resigned += 1

    def send(
        self, broker: BrokerInfo, request: ControlRequest, on_answer: Callable[[ControlAnswer | None], None]
    ) -> None:
        self.sent.append(request)
        on_answer(ControlAnswer())

    def start(self, images: tuple[TopicImage, ...] = ()) -> None:
        count = len(self.epochs)
        self.controller.start(Alone(BROKER, images))
        self.pump.run_until(lambda: len(self.epochs) > count)

    def create(self, name: str) -> TopicImage | TopicFault:
        outcome: TopicImage | TopicFault = self.pump.call(self.controller.topics.create, NewTopic(name, 2, 1))
        return outcome


@pytest.fixture
def lone(pump: PumpedStore) -> Lone:
    return Lone(pump)


def test_requests_are_refused_before_the_election(lone: Lone) -> None:
    outcome = lone.create("orders")
    assert isinstance(outcome, TopicFault)
    assert outcome.error_code == ErrorCode.NOT_CONTROLLER


def test_broker_is_sent_nothing_of_what_it_serves_already(lone: Lone) -> None:
    lone.start()
    assert lone.controller.is_active
    assert not lone.sent


def test_topics_come_and_go_by_direct_calls(lone: Lone) -> None:
    lone.start()
    image = lone.create("orders")
    assert isinstance(image, TopicImage)
    led, shown = lone.sent
    assert isinstance(led, LeaderAndIsr)
    assert isinstance(shown, UpdateMetadata)
    assert shown.topics == (image,)
    assert lone.pump.call(lone.controller.topics.delete, "orders") is None
    stopped = lone.sent[-1]
    assert isinstance(stopped, StopReplicas)
    assert [found.topic_partition for found in stopped.replicas] == [
        TopicPartition("orders", 0),
        TopicPartition("orders", 1),
    ]
    assert not lone.pump.get(paths.topic_path("orders")).is_ok
    assert not lone.pump.get(paths.config_path("topics", "orders")).is_ok


def test_deletion_that_a_crash_cut_off_is_finished(lone: Lone) -> None:
    lone.start()
    image = lone.create("orders")
    assert isinstance(image, TopicImage)
    lone.controller.resign()
    lone.pump.put(paths.delete_topic_path("orders"), b"")
    lone.start((image,))
    lone.pump.run_until(lambda: not lone.controller.topics.state.topics)
    assert not lone.pump.get(paths.topic_path("orders")).is_ok


def test_session_that_ends_takes_the_term_with_it(lone: Lone) -> None:
    lone.start()
    lone.pump.store.expire_session()
    lone.pump.run_until(lambda: lone.resigned == 1)
    assert not lone.controller.is_active
    lone.pump.get("/")  # the next session has begun
    lone.start()
    assert lone.epochs == [1, 2]
