"""The coordinator of a consumer's group: requests to it, on a connection of its own.

Runs in the client loop. `group.py` and `commits.py` decide what an answer means; they call `lost` when it shows that
the coordinator has moved.
"""

from collections.abc import Callable
from typing import Any

from ottla.clients.consumer.errors import error_of
from ottla.clients.errors import BrokerError, ClientError, ConnectionFailed
from ottla.clients.network.coordinators import GROUP, Coordinators
from ottla.clients.network.port import Network, coordinator_connection
from ottla.core.types import BrokerId
from ottla.protocol.message import ApiMessage


class Coordinator:
    """One per consumer with a group."""

    def __init__(self, network: Network, coordinators: Coordinators, group_id: str) -> None:
        self.group_id = group_id
        self._network = network
        self._coordinators = coordinators
        self._broken: ClientError | None = None  # why the connection to the last coordinator was lost

    @property
    def broker_id(self) -> BrokerId | None:
        return self._coordinators.known(GROUP, self.group_id)

    @property
    def failure(self) -> ClientError | None:
        """Why it isn't known, for the error of a caller that times out."""
        return self._coordinators.failure(GROUP, self.group_id) or self._broken

    def find(self, on_known: Callable[[ClientError | None], None]) -> None:
        """Call back when it is known, perhaps at once; or with an error that is not retriable."""

        def found(outcome: BrokerId | ClientError) -> None:
            if isinstance(outcome, BrokerError):
                what = f"group {self.group_id}: looking for its coordinator"
                on_known(error_of(outcome.error_code, what, outcome.message))
            elif isinstance(outcome, ClientError):
                on_known(outcome)
            else:
                self._broken = None
                on_known(None)

        self._coordinators.find(GROUP, self.group_id, found)

    def lost(self) -> None:
        """The coordinator has moved or is gone: the next `find` looks it up again."""
        self._coordinators.forget(GROUP, self.group_id)

    def ask(
        self,
        message: ApiMessage,
        on_response: Callable[[Any | ClientError], None],
        *,
        timeout_ms: int | None = None,
        versions: tuple[int, int] | None = None,
        is_beside: bool = False,
    ) -> None:
        """Send on the coordinator's own connection; if that breaks, the coordinator is unknown.

        `is_beside`: send on the other connection, because a broker answers the requests of a connection in order and a
        join waits on this one.
        """
        broker_id = self.broker_id
        if broker_id is None:
            failure = ConnectionFailed(f"group {self.group_id}: its coordinator is not known")
            self._network.call_soon(lambda: on_response(failure))
            return

        def take(answer: Any | ClientError) -> None:
            if isinstance(answer, ConnectionFailed) and self.broker_id == broker_id:
                self._broken = answer
                self.lost()
            on_response(answer)

        connection = broker_id if is_beside else coordinator_connection(broker_id)
        self._network.request(connection, message, take, timeout_ms=timeout_ms, versions=versions)
