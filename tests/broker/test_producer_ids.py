"""Producer ids out of blocks in the store, and the two small handlers that stand on the broker's id."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.producer_ids import ProducerIds
from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.rig import FakePeer, Rig
from tests.controller.pumped_store import PumpedStore

BLOCK = paths.PRODUCER_ID_BLOCK


@pytest.fixture
def pump(tmp_path: Path) -> Iterator[PumpedStore]:
    pump = PumpedStore(tmp_path)
    yield pump
    pump.close()


def take(pump: PumpedStore, ids: ProducerIds, times: int) -> list[int | None]:
    taken: list[int | None] = []
    for _ in range(times):
        ids.next(taken.append)
    pump.run_until(lambda: len(taken) == times)
    return taken


def block_in(pump: PumpedStore) -> paths.ProducerIdBlock:
    return paths.decode_producer_id_block(BLOCK, pump.get(BLOCK).value)


def test_ids_are_handed_out_one_by_one_from_a_block(pump: PumpedStore) -> None:
    ids = ProducerIds(pump.store, 4)
    assert take(pump, ids, 3) == [0, 1, 2]
    assert block_in(pump) == paths.ProducerIdBlock(4, 0, 999)
    assert take(pump, ids, 2) == [3, 4]


def test_next_block_follows_the_last_one_of_anybody(pump: PumpedStore) -> None:
    take(pump, ProducerIds(pump.store, 4), 1)
    assert take(pump, ProducerIds(pump.store, 5), 1) == [1000]
    assert block_in(pump) == paths.ProducerIdBlock(5, 1000, 1999)


def test_more_who_wait_than_a_block_has_take_a_second_one(pump: PumpedStore) -> None:
    assert take(pump, ProducerIds(pump.store, 4), 2500) == list(range(2500))
    assert block_in(pump).last_producer_id == 2999


def test_ids_of_a_block_that_another_broker_took_are_not_given_out(pump: PumpedStore) -> None:
    ids = ProducerIds(pump.store, 4)
    taken: list[int | None] = []
    ids.next(taken.append)  # reads the node; before it writes, another broker does
    faster = paths.encode_producer_id_block(paths.ProducerIdBlock(5, 0, 999))
    pump.store.set(BLOCK, faster, lambda _: None, version=ANY_VERSION)
    pump.run_until(lambda: bool(taken))
    assert taken == [1000]


def test_failing_store_gives_none_to_all_who_wait(pump: PumpedStore) -> None:
    ids = ProducerIds(pump.store, 4)
    pump.store.close()
    assert take(pump, ids, 3) == [None, None, None]
    assert take(pump, ids, 1) == [None], "the next one tries again"


def test_malformed_block_gives_none_and_is_read_again_the_next_time(pump: PumpedStore) -> None:
    ids = ProducerIds(pump.store, 4)
    pump.put(BLOCK, b"{")
    assert take(pump, ids, 2) == [None, None]
    pump.put(BLOCK, b"")
    assert take(pump, ids, 1) == [0]


@pytest.mark.parametrize("version", range(5))
def test_every_producer_gets_an_id_of_its_own_with_epoch_zero(rig: Rig, version: int) -> None:
    for expected in (0, 1):
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        response = rig.ask(request, InitProducerIdResponse, version)
        assert (response.error_code, response.producer_id, response.producer_epoch) == (0, expected, 0)


@pytest.mark.parametrize("transactional_id", ["mine", ""])
def test_transactional_id_is_refused(rig: Rig, transactional_id: str) -> None:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1000)
    response = rig.ask(request, InitProducerIdResponse, 4)
    assert (response.error_code, response.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


def test_store_that_fails_is_retriable_for_the_producer(rig: Rig) -> None:
    rig.pump.store.close()
    response = rig.ask(
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), InitProducerIdResponse, 4
    )
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", range(5))
def test_this_broker_coordinates_every_group(rig: Rig, version: int) -> None:
    request = FindCoordinatorRequest(key="group", coordinator_keys=["group", ""], key_type=0)
    response = rig.ask(request, FindCoordinatorResponse, version)
    if version < 4:
        assert (response.error_code, response.node_id, response.host, response.port) == (0, 1, "broker.test", 9092)
    else:
        assert [(one.key, one.error_code, one.node_id) for one in response.coordinators] == [
            ("group", 0, 1),
            ("", ErrorCode.INVALID_GROUP_ID, -1),
        ]


def test_coordinators_of_transactions_are_refused(rig: Rig) -> None:
    request = FindCoordinatorRequest(key="t", key_type=1)
    assert rig.ask(request, FindCoordinatorResponse, 3).error_code == ErrorCode.INVALID_REQUEST


def test_coordinator_without_the_listener_of_the_client_is_not_available(rig: Rig) -> None:
    rig.peer = FakePeer("INSIDE")
    response = rig.ask(FindCoordinatorRequest(key="group", key_type=0), FindCoordinatorResponse, 3)
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
