"""Who becomes the controller."""

from ottla.controller.election import Election, ElectionResult
from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION
from tests.controller.faulty_stores import ForgetfulStore
from tests.controller.pumped_store import PumpedStore


def elect(pump: PumpedStore, broker_id: int = 1) -> ElectionResult:
    result: ElectionResult = pump.call(Election(pump.store, broker_id=broker_id, clock=lambda: 77).run)
    return result


def test_first_broker_wins_with_epoch_one_and_leaves_its_name(pump: PumpedStore) -> None:
    assert elect(pump, 4) == ElectionResult(4, 1)
    node = pump.get(paths.CONTROLLER)
    assert paths.decode_controller("", node.value) == paths.ControllerNode(4, 77)
    assert node.stat is not None
    assert node.stat.ephemeral_owner == pump.store.session_id


def test_epoch_grows_with_every_election(pump: PumpedStore) -> None:
    for epoch in (1, 2, 3):
        assert elect(pump) == ElectionResult(1, epoch, epoch_version=epoch - 1)
        pump.call(pump.store.delete, paths.CONTROLLER, version=ANY_VERSION)
    assert pump.get(paths.CONTROLLER_EPOCH).value == b"3"


def test_loser_learns_the_winner_and_leaves_the_epoch_alone(pump: PumpedStore) -> None:
    elect(pump, 1)
    assert elect(pump, 2) == ElectionResult(1, 0)
    assert pump.get(paths.CONTROLLER_EPOCH).value == b"1"


def test_loser_whose_winner_has_just_gone_runs_again(pump: PumpedStore) -> None:
    elect(pump, 1)
    results: list[ElectionResult] = []
    Election(pump.store, broker_id=2, clock=lambda: 77).run(results.append)
    pump.store.delete(paths.CONTROLLER, lambda _: None, version=ANY_VERSION)
    pump.run_until(lambda: bool(results))
    assert results == [ElectionResult(2, 2, epoch_version=1)]


def test_store_that_fails_is_a_problem_in_words(pump: PumpedStore) -> None:
    pump.store.close()
    result = elect(pump)
    assert result.controller_id == -1
    assert result.problem is not None
    assert "/controller" in result.problem
    assert "SESSION_EXPIRED" in result.problem


def test_epoch_that_is_no_number_is_a_problem_in_words(pump: PumpedStore) -> None:
    pump.put(paths.CONTROLLER_EPOCH, b"many")
    result = elect(pump)
    assert result.problem is not None
    assert paths.CONTROLLER_EPOCH in result.problem


def test_controller_node_that_makes_no_sense_is_a_problem_in_words(pump: PumpedStore) -> None:
    pump.put(paths.CONTROLLER, b"{}")
    result = elect(pump)
    assert result.problem is not None
    assert paths.CONTROLLER in result.problem


def test_winner_whose_answer_was_lost_finds_out_that_it_won(pump: PumpedStore) -> None:
    lost = ForgetfulStore(pump.store, is_applied=True)
    result = pump.call(Election(lost, broker_id=3, clock=lambda: 77).run)
    assert result == ElectionResult(3, 1)
    assert pump.get(paths.CONTROLLER_EPOCH).value == b"1"


def test_node_of_an_older_session_of_the_same_broker_is_not_a_victory(pump: PumpedStore) -> None:
    pump.put(paths.CONTROLLER, paths.encode_controller(paths.ControllerNode(1, 5)))
    assert elect(pump, 1) == ElectionResult(1, 0)
    assert not pump.get(paths.CONTROLLER_EPOCH).is_ok


def test_epoch_and_node_come_together_or_not_at_all(pump: PumpedStore) -> None:
    lost = ForgetfulStore(pump.store, is_applied=False)
    results: list[ElectionResult] = []
    Election(lost, broker_id=3, clock=lambda: 77).run(results.append)
    lost.multi = pump.store.multi  # type: ignore[method-assign]
    pump.run_until(lambda: bool(results))
    assert results == [ElectionResult(3, 1)]
