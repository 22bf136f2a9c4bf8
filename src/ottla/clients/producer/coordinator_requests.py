"""Requests to the coordinators of a transaction, repeated until an answer is final.

The caller decides when to stop: it stops when `is_wanted` returns False.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from ottla.clients.error_rules import COORDINATOR_RETRIABLE, STALE_COORDINATOR
from ottla.clients.errors import ClientError, UnsupportedByBroker, error_name
from ottla.clients.network.coordinators import Coordinators
from ottla.clients.network.metadata import Metadata
from ottla.clients.network.port import Network
from ottla.core.types import BrokerId
from ottla.links.backoff import Backoff
from ottla.protocol.message import ApiMessage

# The first error code of an answer, and what it is about.
ErrorsOf: TypeAlias = Callable[[Any], int]


class CoordinatorRequests:
    """Belongs to the client loop."""

    def __init__(
        self, network: Network, metadata: Metadata, backoff: Backoff, *, is_wanted: Callable[[], bool]
    ) -> None:
        self._network = network
        self._metadata = metadata
        self._backoff = backoff
        self._is_wanted = is_wanted
        self._coordinators = Coordinators(network, metadata, backoff)
        self._problem = "no broker has answered"

    def problem(self, kind: int, key: str) -> str:
        """Why the last attempt failed."""
        return str(self._coordinators.failure(kind, key) or self._problem)

    def send(
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
        """Call back once, with an answer that no retry would change, or with the reason why there will be none."""

        def again() -> None:
            if self._is_wanted():
                self.send(kind, key, message, on_answer, error_of=error_of, versions=versions, attempts=attempts + 1)

        def retry(problem: str) -> None:
            self._problem = problem
            self._network.call_later(self._backoff.delay_ms(attempts), again)

        def take(answer: Any | ClientError) -> None:
            if isinstance(answer, UnsupportedByBroker):
                on_answer(answer)
            elif isinstance(answer, ClientError):
                # The metadata may not have the broker yet, or no longer.
                self._metadata.request_update()
                self._coordinators.forget(kind, key)
                retry(str(answer))
            elif (code := error_of(answer)) in COORDINATOR_RETRIABLE:
                if code in STALE_COORDINATOR:
                    self._coordinators.forget(kind, key)
                retry(error_name(code))
            else:
                on_answer(answer)

        def found(outcome: BrokerId | ClientError) -> None:
            if isinstance(outcome, ClientError):
                on_answer(outcome)
            elif self._is_wanted():
                self._network.request(outcome, message, take, versions=versions)

        self._coordinators.find(kind, key, found)
