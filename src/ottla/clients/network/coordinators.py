"""The coordinator of a group or a transactional id: looked up when needed, and again when it moves.

Runs in the client loop. The caller decides what an answer of a coordinator means, and calls `forget` when the
coordinator has moved.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from ottla.clients.error_rules import RETRIABLE
from ottla.clients.errors import BrokerError, ClientClosed, ClientError, UnsupportedByBroker
from ottla.clients.network.metadata import Metadata
from ottla.clients.network.port import ANY_BROKER, Network
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId
from ottla.links.backoff import Backoff
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

GROUP: Final = 0
TRANSACTION: Final = 1
# The newest versions with one key; version 0 knows only groups.
ONE_KEY_VERSION_MAX: Final = 3
_VERSIONS: Final = {GROUP: (0, ONE_KEY_VERSION_MAX), TRANSACTION: (1, ONE_KEY_VERSION_MAX)}
_NAMES: Final = {GROUP: "group", TRANSACTION: "transactional id"}

OnFound: TypeAlias = Callable[[BrokerId | ClientError], None]


class Coordinators:
    """One per client."""

    def __init__(self, network: Network, metadata: Metadata, backoff: Backoff) -> None:
        self._network = network
        self._metadata = metadata
        self._backoff = backoff
        self._known: dict[tuple[int, str], BrokerId] = {}
        self._lookups: dict[tuple[int, str], _Lookup] = {}
        metadata.on_change.append(self._metadata_changed)

    def known(self, kind: int, key: str) -> BrokerId | None:
        return self._known.get((kind, key))

    def failure(self, kind: int, key: str) -> ClientError | None:
        """Why the last attempt of a running lookup failed."""
        lookup = self._lookups.get((kind, key))
        return None if lookup is None else lookup.failure

    def find(self, kind: int, key: str, on_found: OnFound) -> None:
        """Call back with the coordinator, at once if it is known; or with an error that is not retriable."""
        broker_id = self._known.get((kind, key))
        if broker_id is not None:
            on_found(broker_id)
            return
        lookup = self._lookups.get((kind, key))
        if lookup is None:
            self._lookups[kind, key] = lookup = _Lookup(on_found)
            self._ask(kind, key, lookup)
        else:
            lookup.waiting.append(on_found)

    def forget(self, kind: int, key: str) -> None:
        """The coordinator has moved or is gone: the next `find` looks it up again."""
        self._known.pop((kind, key), None)

    def _ask(self, kind: int, key: str, lookup: "_Lookup") -> None:
        def take(answer: FindCoordinatorResponse | ClientError) -> None:
            if isinstance(answer, FindCoordinatorResponse):
                if answer.error_code == ErrorCode.NONE:
                    lookup.found = answer.node_id
                    if not self._settle(kind, key, lookup):
                        self._metadata.request_update()
                    return
                what = f"looking for the coordinator of {_NAMES[kind]} {key}"
                answer = BrokerError(answer.error_code, what, answer.error_message)
            if isinstance(answer, ClientClosed | UnsupportedByBroker) or (
                isinstance(answer, BrokerError) and answer.error_code not in RETRIABLE
            ):
                self._finish(kind, key, answer)
            else:
                self._ask_later(kind, key, lookup, answer)

        request = FindCoordinatorRequest(key=key, key_type=kind)
        self._network.request(ANY_BROKER, request, take, versions=_VERSIONS[kind])

    def _ask_later(self, kind: int, key: str, lookup: "_Lookup", failure: ClientError) -> None:
        lookup.failure = failure
        lookup.found = None
        delay_ms = self._backoff.delay_ms(lookup.attempts)
        lookup.attempts += 1
        self._network.call_later(delay_ms, lambda: self._ask(kind, key, lookup))

    def _metadata_changed(self) -> None:
        for (kind, key), lookup in list(self._lookups.items()):
            if lookup.found is not None and not self._settle(kind, key, lookup):
                # The coordinator's broker is not in the metadata of another broker yet.
                failure = BrokerError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, f"broker {lookup.found} is not in the metadata"
                )
                self._ask_later(kind, key, lookup, failure)

    def _settle(self, kind: int, key: str, lookup: "_Lookup") -> bool:
        """Whether the address of the coordinator is known."""
        if lookup.found not in self._metadata.brokers:
            return False
        self._known[kind, key] = lookup.found
        self._finish(kind, key, lookup.found)
        return True

    def _finish(self, kind: int, key: str, outcome: BrokerId | ClientError) -> None:
        for on_found in self._lookups.pop((kind, key)).waiting:
            on_found(outcome)


class _Lookup:
    """A running lookup, and all callbacks that wait for it."""

    __slots__ = ("attempts", "failure", "found", "waiting")

    def __init__(self, on_found: OnFound) -> None:
        self.waiting = [on_found]
        self.attempts = 0
        self.failure: ClientError | None = None
        self.found: BrokerId | None = None  # the coordinator, while its address isn't known yet
