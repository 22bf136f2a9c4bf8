"""Requests to the coordinators that a transaction needs, repeated until there is an answer that means something.

When to stop trying is the caller's: it stops by no longer wanting the answer (`is_wanted`).
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

# The first error code of an answer that has any, and what it is about.
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
        """Why the last attempt came to nothing."""
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
        """Call back once, with an answer whose error doesn't pass by waiting, or why there never will be one."""

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
                # Perhaps a broker that the metadata doesn't have yet, or no longer.
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
