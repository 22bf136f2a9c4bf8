"""Requests to the coordinators that a transaction needs, repeated until there is an answer that means something.

Finds the coordinator, forgets it when it moves, and waits out what passes. When to stop trying is the caller's: it
stops by no longer wanting the answer (`is_wanted`).
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ottla.clients.errors import BrokerError, ClientError, UnsupportedByBroker, error_name
from ottla.clients.network.metadata import Metadata
from ottla.clients.network.port import ANY_BROKER, Network
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId
from ottla.links.backoff import Backoff
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

GROUP: Final = 0
TRANSACTION: Final = 1

_FIND_VERSIONS: Final = (1, 3)  # the newest that name one key; transactions came with 1
_MOVED: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
_PASSING: Final = _MOVED | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
}

# The first error code of an answer that has any, and what it is about.
ErrorsOf: TypeAlias = Callable[[Any], int]


class Coordinators:
    """Of the loop. One kind and key has one coordinator at a time."""

    def __init__(
        self, network: Network, metadata: Metadata, backoff: Backoff, *, is_wanted: Callable[[], bool]
    ) -> None:
        self.problem = "no broker has answered"  # why the last attempt came to nothing
        self._network = network
        self._metadata = metadata
        self._backoff = backoff
        self._is_wanted = is_wanted
        self._known: dict[tuple[int, str], BrokerId] = {}

    def ask(
        self,
        kind: int,
        key: str,
        message: ApiMessage,
        on_answer: Callable[[Any | ClientError], None],
        *,
        error_of: ErrorsOf,
        versions: tuple[int, int],
        attempts: int = 0,
    ) -> None:
        """Call back once, with an answer whose error doesn't pass by waiting, or why there never will be one."""

        def again() -> None:
            if self._is_wanted():
                self.ask(kind, key, message, on_answer, error_of=error_of, versions=versions, attempts=attempts + 1)

        def retry(problem: str) -> None:
            self.problem = problem
            self._network.call_later(self._backoff.delay_ms(attempts), again)

        def take(answer: Any | ClientError) -> None:
            if isinstance(answer, UnsupportedByBroker):
                on_answer(answer)
            elif isinstance(answer, ClientError):
                # Perhaps a broker that the metadata doesn't have yet, or no longer.
                self._metadata.request_update()
                self._known.pop((kind, key), None)
                retry(str(answer))
            elif (code := error_of(answer)) in _PASSING:
                if code in _MOVED:
                    self._known.pop((kind, key), None)
                retry(error_name(code))
            else:
                on_answer(answer)

        def found(answer: FindCoordinatorResponse | ClientError) -> None:
            if isinstance(answer, UnsupportedByBroker):
                on_answer(answer)
            elif isinstance(answer, ClientError):
                retry(str(answer))
            elif answer.error_code in _PASSING:
                retry(f"looking for the coordinator: {error_name(answer.error_code)}")
            elif answer.error_code != ErrorCode.NONE:
                what = f"looking for the coordinator of {'group' if kind == GROUP else 'transactional id'} {key}"
                on_answer(BrokerError(answer.error_code, what, answer.error_message))
            else:
                self._known[kind, key] = answer.node_id
                self._network.request(answer.node_id, message, take, versions=versions)

        broker_id = self._known.get((kind, key))
        if broker_id is None:
            self._network.request(
                ANY_BROKER, FindCoordinatorRequest(key=key, key_type=kind), found, versions=_FIND_VERSIONS
            )
        else:
            self._network.request(broker_id, message, take, versions=versions)
