"""A broker's registration: its epochs, an id that is still held, lost answers, sessions that end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.cluster_join import StoreFailed
from ottla.broker.registration import Registration
from ottla.broker.steps import Running
from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION
from tests.broker.control_values import OTHER, carry_out, update_metadata
from tests.broker.lossy_store import LossyStore
from tests.broker.rig import BROKER_ID, Rig
from tests.controller.pumped_store import PumpedStore
from tests.storage.hand_driven import HandLoop

WAIT_MS = 18_000
NODE = paths.BrokerRegistration(("PLAINTEXT://broker.test:9092",), {"PLAINTEXT": "PLAINTEXT"}, 1, host="broker.test")
PATH = paths.broker_path(3)


class Registering:
    """Broker 3 on a store, with a clock that the test moves."""

    def __init__(self, directory: Path) -> None:
        self.loop = HandLoop()
        self.pump = PumpedStore(directory)
        self.store = LossyStore(self.pump.store)
        self.epochs: list[int] = []
        self.failures: list[str] = []
        self.ends: list[Exception | None] = []
        self.registration = self.make()

    def make(self) -> Registration:
        return Registration(
            self.store,
            3,
            NODE,
            wait_ms=WAIT_MS,
            now_ms=lambda: round(self.loop.now * 1000),
            call_later=lambda delay_ms, callback: self.loop.call_at(self.loop.now + delay_ms / 1000, callback),
            on_registered=self.epochs.append,
            on_failed=self.failures.append,
        )

    def begin(self) -> None:
        Running(self.registration.register(), lambda _, error: self.ends.append(error))

    def register(self) -> None:
        self.begin()
        self.pump.run_until(lambda: bool(self.ends))
        error = self.ends.pop()
        if error is not None:
            raise error

    def settle(self) -> None:
        """What was asked of the store so far is answered."""
        for _ in range(4):
            self.pump.get("/")


@pytest.fixture
def registering(tmp_path: Path) -> Iterator[Registering]:
    made = Registering(tmp_path)
    yield made
    made.pump.close()


def test_each_registration_has_the_next_epoch(registering: Registering) -> None:
    for epoch in range(3):
        registering.register()
        assert registering.registration.epoch == epoch
        stat = registering.pump.get(paths.broker_epoch_path(3)).stat
        assert stat is not None
        assert stat.version == epoch
        registering.pump.call(registering.pump.store.delete, PATH, version=ANY_VERSION)
    assert registering.epochs == [0, 1, 2]


def test_registered_node_is_ephemeral_and_has_the_endpoints(registering: Registering) -> None:
    registering.register()
    found = registering.pump.get(PATH)
    assert paths.decode_broker(PATH, found.value) == NODE
    assert found.stat is not None
    assert found.stat.ephemeral_owner == registering.pump.store.session_id


def test_id_that_an_older_session_holds_is_waited_for(registering: Registering) -> None:
    registering.pump.put(PATH, b"{}")  # somebody else's
    registering.begin()
    registering.settle()
    assert not registering.ends
    registering.pump.call(registering.pump.store.delete, PATH, version=ANY_VERSION)
    registering.pump.run_until(lambda: bool(registering.ends))
    assert registering.ends == [None]
    assert registering.epochs == [0]


def test_id_that_is_held_for_longer_than_a_session_is_taken(registering: Registering) -> None:
    registering.pump.put(PATH, b"{}")
    registering.begin()
    registering.settle()
    registering.loop.run_for(WAIT_MS)
    registering.pump.run_until(lambda: bool(registering.ends))
    (error,) = registering.ends
    assert isinstance(error, StoreFailed)
    assert "broker.id 3 is taken by a broker that is alive" in str(error)
    assert registering.epochs == []


def test_lost_answer_of_a_registration_that_was_made(registering: Registering) -> None:
    registering.register()
    registering.pump.call(registering.pump.store.delete, PATH, version=ANY_VERSION)
    registering.store.loses_answer = True
    registering.register()
    assert registering.epochs == [0, 1]


def test_registration_that_was_lost_is_made_again(registering: Registering) -> None:
    registering.register()
    registering.pump.call(registering.pump.store.delete, PATH, version=ANY_VERSION)
    registering.store.loses_multi = True
    registering.begin()
    registering.settle()
    assert not registering.ends
    registering.loop.run_for(1000)
    registering.pump.run_until(lambda: bool(registering.ends))
    assert registering.epochs == [0, 1]


def test_new_session_registers_anew_with_a_larger_epoch(registering: Registering) -> None:
    registering.register()
    registering.pump.store.expire_session()
    registering.pump.run_until(lambda: len(registering.epochs) == 2)
    assert registering.epochs == [0, 1]
    found = registering.pump.get(PATH)
    assert found.stat is not None
    assert found.stat.ephemeral_owner == registering.pump.store.session_id


def test_stopped_broker_does_not_register_anew(registering: Registering) -> None:
    registering.register()
    registering.registration.stop()
    registering.pump.store.expire_session()
    registering.settle()
    assert registering.epochs == [0]
    assert not registering.pump.get(PATH).is_ok


def test_core_knows_its_epoch_and_keeps_it_through_a_new_session(rig: Rig) -> None:
    assert rig.core.registration.epoch == rig.local_topics.fence.broker_epoch == 0
    assert rig.cache.brokers[BROKER_ID].epoch == 0
    carry_out(rig, update_metadata())
    rig.pump.store.expire_session()
    rig.pump.run_until(lambda: rig.core.registration.epoch == 1)
    assert rig.local_topics.fence.broker_epoch == 1
    assert rig.cache.brokers[BROKER_ID].epoch == 1
    assert OTHER in rig.cache.brokers
