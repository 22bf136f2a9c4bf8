"""Which broker coordinates the group, found when needed and found anew when it moves; requests to it.

Lives in the loop. What an answer means for the group is `group.py`'s and `commits.py`'s to say; they call `lost` when
it shows that the coordinator is another.
"""

from collections.abc import Callable
from typing import Any, Final

from ottla.clients.consumer.errors import error_of
from ottla.clients.errors import BrokerError, ClientError, ConnectionFailed, UnsupportedByBroker
from ottla.clients.network.metadata import Metadata
from ottla.clients.network.port import ANY_BROKER, Network, coordinator_connection
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

_VERSIONS: Final = (0, 3)  # the newest that name one group
# Answers that say that the coordinator is another, or not ready to be one.
MOVED: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
_PASSING: Final = MOVED | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT}


class Coordinator:
    """One per consumer with a group."""

    def __init__(self, network: Network, metadata: Metadata, group_id: str, *, retry_backoff_ms: int) -> None:
        self.group_id = group_id
        self.broker_id: BrokerId | None = None
        self.failure: ClientError | None = None  # why it isn't known, for who gives up waiting
        self._network = network
        self._metadata = metadata
        self._found: BrokerId | None = None  # named, but its address isn't known yet
        self._retry_backoff_ms = retry_backoff_ms
        self._is_looking = False
        self._waiting: list[Callable[[ClientError | None], None]] = []
        metadata.on_change.append(self._metadata_changed)

    def find(self, on_known: Callable[[ClientError | None], None]) -> None:
        """Calls back when it is known, which may be at once; or with an error that no later try can mend."""
        if self.broker_id is not None:
            on_known(None)
            return
        self._waiting.append(on_known)
        if not self._is_looking:
            self._look()

    def lost(self) -> None:
        """Another answered, or none: the next `find` looks again."""
        self.broker_id = None

    def ask(
        self,
        message: ApiMessage,
        on_response: Callable[[Any | ClientError], None],
        *,
        timeout_ms: int | None = None,
        versions: tuple[int, int] | None = None,
        is_beside: bool = False,
    ) -> None:
        """On the coordinator's own connection; one that breaks makes the coordinator unknown.

        `is_beside`: on the other one, past a join that waits: a broker answers the requests of a connection in order.
        """
        broker_id = self.broker_id
        if broker_id is None:
            failure = ConnectionFailed(f"group {self.group_id}: its coordinator is not known")
            self._network.call_soon(lambda: on_response(failure))
            return

        def take(answer: Any | ClientError) -> None:
            if isinstance(answer, ConnectionFailed) and self.broker_id == broker_id:
                self.failure = answer
                self.lost()
            on_response(answer)

        connection = broker_id if is_beside else coordinator_connection(broker_id)
        self._network.request(connection, message, take, timeout_ms=timeout_ms, versions=versions)

    def _look(self) -> None:
        self._is_looking = True
        request = FindCoordinatorRequest(key=self.group_id, key_type=0)
        self._network.request(ANY_BROKER, request, self._take, versions=_VERSIONS)

    def _take(self, answer: FindCoordinatorResponse | ClientError) -> None:
        self._is_looking = False
        if isinstance(answer, FindCoordinatorResponse):
            if answer.error_code == ErrorCode.NONE:
                self._found = answer.node_id
                if answer.node_id in self._metadata.brokers:
                    self._metadata_changed()
                else:
                    self._is_looking = True
                    self._metadata.request_update()
                return
            what = f"group {self.group_id}: looking for its coordinator"
            answer = error_of(answer.error_code, what, answer.error_message)
        self.failure = answer
        is_final = isinstance(answer, UnsupportedByBroker) or (
            isinstance(answer, BrokerError) and answer.error_code not in _PASSING
        )
        if is_final:
            self._tell(answer)
        else:
            self._network.call_later(self._retry_backoff_ms, self._look_if_wanted)

    def _metadata_changed(self) -> None:
        if self._found in self._metadata.brokers:
            self.broker_id, self._found = self._found, None
            self._is_looking = False
            self.failure = None
            self._tell(None)
        elif self._found is not None:
            # Two brokers that don't agree yet on who is there.
            self._found = None
            self._is_looking = False
            self._network.call_later(self._retry_backoff_ms, self._look_if_wanted)

    def _look_if_wanted(self) -> None:
        if self._waiting and not self._is_looking and self.broker_id is None:
            self._look()

    def _tell(self, failure: ClientError | None) -> None:
        waiting, self._waiting = self._waiting, []
        for on_known in waiting:
            on_known(failure)
