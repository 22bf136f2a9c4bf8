"""In-sync replicas in the store: fenced writes, answers that are lost, notifications."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.broker.isr_store import NOTIFY_AFTER_MS, IsrStore
from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION
from ottla.core.cluster import PartitionState
from ottla.core.types import TopicPartition
from ottla.replication.ports import IsrRefused, IsrResult, IsrUnknown, IsrWritten
from tests.broker.lossy_store import LossyStore
from tests.controller.pumped_store import PumpedStore
from tests.storage.hand_driven import HandLoop

ORDERS_0 = TopicPartition("orders", 0)
STATE_PATH = paths.partition_state_path("orders", 0)
ALL = PartitionState(leader=1, leader_epoch=4, isr=(1, 2, 3), replicas=(1, 2, 3))


class Leader:
    """A leader's broker on a store with one partition."""

    def __init__(self, directory: Path) -> None:
        self.loop = HandLoop()
        self.pump = PumpedStore(directory)
        self.store = LossyStore(self.pump.store)
        self.controller_epoch = 8
        for path in (
            paths.topic_path("orders"),
            paths.topic_partitions_path("orders"),
            paths.partition_path("orders", 0),
        ):
            self.pump.put(path, b"")
        self.pump.put(STATE_PATH, paths.encode_partition_state(paths.PartitionState(1, 4, (1, 2, 3), 8)))
        for broker_id in (1, 2, 3):
            self.pump.put(paths.broker_epoch_path(broker_id), b"")
        self.isrs = IsrStore(
            self.store,
            controller_epoch=lambda: self.controller_epoch,
            call_later=self._call_later,
        )

    def _call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self.loop.call_at(self.loop.now + delay_ms / 1000, callback)

    def write(self, *isr: int, version: int = 0, added: dict[int, int] | None = None) -> IsrResult:
        state = ALL._replace(isr=isr, version=version)
        result: IsrResult = self.pump.call(lambda on_done: self.isrs.write(ORDERS_0, state, added or {}, on_done))
        return result

    @property
    def stored(self) -> tuple[tuple[int, ...], int]:
        """The in-sync replicas of the node, and its version."""
        found = self.pump.get(STATE_PATH)
        assert found.stat is not None
        return paths.decode_partition_state(STATE_PATH, found.value).isr, found.stat.version

    def notes(self) -> list[tuple[TopicPartition, ...]]:
        found = self.pump.tree(paths.ISR_CHANGE_NOTIFICATION)
        return [paths.decode_partition_set(path, value) for path, value in found.items()]


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[Leader]:
    made = Leader(tmp_path)
    yield made
    made.pump.close()


def test_written_isr_has_the_next_version_and_the_newest_controller(leader: Leader) -> None:
    leader.controller_epoch = 9
    assert leader.write(1, 2) == IsrWritten(1)
    assert leader.stored == ((1, 2), 1)
    node = paths.decode_partition_state(STATE_PATH, leader.pump.get(STATE_PATH).value)
    assert node == paths.PartitionState(1, 4, (1, 2), controller_epoch=9)


def test_write_on_another_version_is_refused(leader: Leader) -> None:
    leader.write(1, 2)
    assert isinstance(leader.write(1, version=0), IsrRefused)
    assert leader.stored == ((1, 2), 1)


def test_broker_that_registered_anew_is_not_added(leader: Leader) -> None:
    assert leader.write(1) == IsrWritten(1)
    leader.pump.call(leader.pump.store.set, paths.broker_epoch_path(2), b"", version=ANY_VERSION)
    assert isinstance(leader.write(1, 2, version=1, added={2: 0}), IsrRefused)
    assert leader.stored == ((1,), 1)
    assert leader.write(1, 2, version=1, added={2: 1}) == IsrWritten(2)


def test_broker_that_never_registered_is_not_added(leader: Leader) -> None:
    assert isinstance(leader.write(1, 2, 3, 4, added={4: 0}), IsrRefused)


def test_write_of_a_topic_that_is_gone_is_refused(leader: Leader) -> None:
    leader.pump.call(leader.pump.store.delete, STATE_PATH, version=ANY_VERSION)
    assert isinstance(leader.write(1), IsrRefused)
    leader.store.loses_multi = True
    assert isinstance(leader.write(1), IsrRefused)


def test_lost_answer_of_a_write_that_was_made_is_found_by_reading(leader: Leader) -> None:
    leader.store.loses_answer = True
    assert leader.write(1, 2) == IsrWritten(1)


def test_write_that_was_lost_is_unknown_until_it_is_made_again(leader: Leader) -> None:
    leader.store.loses_multi = True
    assert isinstance(leader.write(1, 2), IsrUnknown)
    assert leader.write(1, 2) == IsrWritten(1)
    assert leader.stored == ((1, 2), 1)


def test_write_that_arrives_late_is_recognized(leader: Leader) -> None:
    leader.store.loses_multi = True
    assert isinstance(leader.write(1, 2), IsrUnknown)
    leader.pump.call(leader.pump.store.multi, leader.store.late.pop())
    leader.controller_epoch = 9
    assert leader.write(1, 2) == IsrWritten(2)  # another controller: it is written once more
    assert leader.stored == ((1, 2), 2)


def test_change_is_made_on_top_of_an_earlier_one_that_arrived_late(leader: Leader) -> None:
    leader.store.loses_multi = True
    assert isinstance(leader.write(1, 2), IsrUnknown)
    leader.pump.call(leader.pump.store.multi, leader.store.late.pop())
    assert leader.write(1) == IsrWritten(2)
    assert leader.stored == ((1,), 2)


def test_lost_write_on_a_node_that_somebody_else_wrote_is_refused(leader: Leader) -> None:
    leader.store.loses_multi = True
    assert isinstance(leader.write(1, 2), IsrUnknown)
    leader.pump.put(STATE_PATH, paths.encode_partition_state(paths.PartitionState(2, 5, (2, 3), 8)))
    assert isinstance(leader.write(1, 2), IsrRefused)
    assert leader.stored == ((2, 3), 1)


def test_nothing_is_known_while_the_store_does_not_answer(leader: Leader) -> None:
    leader.store.loses_answer = leader.store.loses_gets = True
    assert isinstance(leader.write(1, 2), IsrUnknown)
    leader.store.loses_gets = False
    assert leader.write(1, 2) == IsrWritten(1)
    assert leader.stored == ((1, 2), 1)


def test_changes_are_gathered_for_one_notification(leader: Leader) -> None:
    leader.write(1, 2)
    leader.write(1, version=1)
    assert leader.notes() == []
    leader.loop.run_for(NOTIFY_AFTER_MS)
    assert leader.notes() == [(ORDERS_0,)]
    assert leader.loop.run_for(10 * NOTIFY_AFTER_MS) == 0
    leader.write(1, 3, version=2)
    leader.loop.run_for(NOTIFY_AFTER_MS)
    assert leader.notes() == [(ORDERS_0,), (ORDERS_0,)]


def test_notification_that_failed_comes_again(leader: Leader) -> None:
    leader.write(1, 2)
    parent = leader.pump.call(leader.pump.store.delete, paths.ISR_CHANGE_NOTIFICATION, version=ANY_VERSION)
    assert parent.is_ok
    leader.loop.run_for(NOTIFY_AFTER_MS)
    leader.pump.put(paths.ISR_CHANGE_NOTIFICATION, b"")
    leader.loop.run_for(NOTIFY_AFTER_MS)
    assert leader.notes() == [(ORDERS_0,)]


def test_eligible_replicas_are_written_with_the_state_whether_their_node_is_there_or_not(leader: Leader) -> None:
    leader.pump.put(paths.OTTLA, b"")
    leader.pump.put(paths.ELIGIBLE, b"")
    path = paths.eligible_path("orders", 0)
    for version, isr, eligible in ((0, (1,), (2, 3)), (1, (1, 2), ()), (2, (1,), (2,))):
        state = ALL._replace(isr=isr, version=version, eligible=eligible)
        result = leader.pump.call(lambda on_done, state=state: leader.isrs.write(ORDERS_0, state, {}, on_done))
        assert result == IsrWritten(version + 1)
        assert paths.decode_eligible(path, leader.pump.get(path).value).eligible == eligible
        assert leader.stored == (isr, version + 1)
