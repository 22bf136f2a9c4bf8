"""Finding coordinators: one question for all who wait, repeated while it may pass, and asked again when one moves."""

from ottla.clients.errors import BrokerError, ClientClosed, ClientError, ConnectionFailed
from ottla.clients.network.coordinators import GROUP, TRANSACTION, Coordinators
from ottla.clients.network.metadata import Metadata
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId
from ottla.links.backoff import Backoff
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.find_coordinator import FindCoordinatorResponse
from tests.clients.fake_network import FakeNetwork

HERE = FindCoordinatorResponse(node_id=1, host="fake", port=9001)


class Rig:
    def __init__(self) -> None:
        self.network = FakeNetwork(topics={"orders": 1})
        self.metadata = Metadata(self.network, max_age_ms=300_000, backoff_ms=100)
        self.coordinators = Coordinators(self.network, self.metadata, Backoff(first_ms=100, max_ms=1_000))
        self.found: list[BrokerId | ClientError] = []

    def find(self, kind: int = GROUP, key: str = "g") -> None:
        self.coordinators.find(kind, key, self.found.append)
        self.network.run()

    @property
    def asked(self) -> int:
        return len(self.network.of(ApiKey.FIND_COORDINATOR))


def test_all_who_wait_share_one_question_and_later_ones_get_what_is_known() -> None:
    rig = Rig()
    rig.find()
    rig.find()
    (held,) = rig.network.held(ApiKey.FIND_COORDINATOR)
    held.answer(HERE)
    rig.network.run()
    rig.find()
    assert rig.found == [1, 1, 1]
    assert rig.asked == 1


def test_a_coordinator_is_known_only_when_its_address_is() -> None:
    rig = Rig()
    rig.network.serve(ApiKey.FIND_COORDINATOR, lambda sent: HERE)
    assert not rig.metadata.brokers
    rig.find()
    assert rig.found == [1]
    assert 1 in rig.metadata.brokers


def test_a_broker_that_no_metadata_names_is_asked_for_again() -> None:
    rig = Rig()
    answers = iter([FindCoordinatorResponse(node_id=77), HERE])
    rig.network.serve(ApiKey.FIND_COORDINATOR, lambda sent: next(answers))
    rig.find()
    assert rig.found == []
    assert "77" in str(rig.coordinators.failure(GROUP, "g"))
    rig.network.advance(5_000)
    assert rig.found == [1]


def test_errors_that_pass_are_waited_out() -> None:
    rig = Rig()
    passing = FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answers = iter([passing, ConnectionFailed("cut"), passing, HERE])
    rig.network.serve(ApiKey.FIND_COORDINATOR, lambda sent: next(answers))
    rig.find(TRANSACTION, "t")
    rig.network.advance(10_000)
    assert rig.found == [1]
    assert rig.asked == 4


def test_an_error_that_does_not_pass_ends_the_search() -> None:
    rig = Rig()
    refusal = FindCoordinatorResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    rig.network.serve(ApiKey.FIND_COORDINATOR, lambda sent: refusal)
    rig.find()
    (failure,) = rig.found
    assert isinstance(failure, BrokerError)
    assert failure.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_one_that_was_forgotten_is_looked_up_again() -> None:
    rig = Rig()
    rig.network.serve(ApiKey.FIND_COORDINATOR, lambda sent: HERE)
    rig.find()
    rig.coordinators.forget(GROUP, "g")
    assert rig.coordinators.known(GROUP, "g") is None
    rig.find()
    assert rig.asked == 2


def test_nothing_is_asked_any_more_when_the_client_is_closed() -> None:
    rig = Rig()
    rig.network.serve(ApiKey.FIND_COORDINATOR, lambda sent: ClientClosed("the client is closed"))
    rig.find()
    rig.network.advance(10_000)
    assert rig.asked == 1
    assert isinstance(rig.found[0], ClientClosed)
