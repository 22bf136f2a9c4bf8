"""Makes a test's broker misbehave, through the proxy in front of it."""

from typing import TYPE_CHECKING

from ottla.testing.faults import CutNext, Delay, FailNext, Fault, Hold, Moment, SeenRequest
from ottla.testing.protocol_names import parse_api, parse_error
from ottla.testing.waiting import DEFAULT_TIMEOUT_MS, wait_until

if TYPE_CHECKING:
    from ottla.testing.proxy import FaultProxy


class FaultControls:
    """Each fault applies when its call returns, until it is used up, `remove`d, or its `with` block ends."""

    _proxy: "FaultProxy | None"

    def delay(self, ms: float, api: str | int | None = None, *, client_id: str | None = None) -> Fault:
        """Delays every request (of an API, of a client) before it reaches the broker."""
        board = self._faults().board
        return board.add(Delay(board, None if api is None else parse_api(api), client_id, delay_ms=ms))

    def hold(self, api: str | int | None = None, *, answers: bool = False, client_id: str | None = None) -> Hold:
        """Holds requests in the proxy until `release()`; with `answers`, the broker acts and its responses are held."""
        board = self._faults().board
        return board.add(Hold(board, None if api is None else parse_api(api), client_id, answers=answers))

    def fail_next(
        self,
        api: str | int,
        count: int = 1,
        error_code: str | int = "UNKNOWN_SERVER_ERROR",
        *,
        applied: bool = False,
        client_id: str | None = None,
    ) -> Fault:
        """The next requests get an error, and never reach the broker.

        With `applied` the broker does what they ask and only its response is replaced: the client can't know.
        """
        board = self._faults().board
        fault = FailNext(
            board, parse_api(api), client_id, count=_at_least_one(count), error=parse_error(error_code), applied=applied
        )
        return board.add(fault)

    def cut_next(
        self, api: str | int | None = None, count: int = 1, *, when: Moment = "before", client_id: str | None = None
    ) -> Fault:
        """The next requests lose their connection: `before` the broker gets them, or `after`, instead of a response."""
        if when not in ("before", "after"):
            raise ValueError(f"when={when!r}: a connection is cut 'before' or 'after' the broker acts")
        board = self._faults().board
        key = None if api is None else parse_api(api)
        return board.add(CutNext(board, key, client_id, count=_at_least_one(count), when=when))

    def cut_connections(self, *, client_id: str | None = None) -> int:
        """End all connections of clients now; returns how many. Clients may connect again at once."""
        return self._faults().cut_connections(client_id)

    def clear_faults(self) -> None:
        """Remove all faults; held requests go on."""
        self._faults().board.clear()

    def requests(self, api: str | int | None = None, *, client_id: str | None = None) -> list[SeenRequest]:
        """The last 10,000 requests that clients sent, oldest first."""
        board = self._faults().board
        key = None if api is None else parse_api(api)
        return [
            request
            for request in board.run(lambda: list(board.seen))
            if (key is None or request.api == key) and (client_id is None or request.client_id == client_id)
        ]

    def forget_requests(self) -> None:
        board = self._faults().board
        board.run(board.seen.clear)

    def wait_for_requests(
        self, api: str | int, count: int = 1, *, client_id: str | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> None:
        """Waits for a number of requests of an API, counted from the start or the last `forget_requests`."""
        key = parse_api(api)
        wait_until(
            lambda: len(self.requests(key, client_id=client_id)) >= count,
            what=f"{count} {key.name} requests came",
            seen=lambda: f"{len(self.requests(key, client_id=client_id))} had come",
            timeout_ms=timeout_ms,
        )

    def _faults(self) -> "FaultProxy":
        if self._proxy is None:
            raise RuntimeError("this broker was made with direct=True: no proxy stands before it that could do this")
        return self._proxy


def _at_least_one(count: int) -> int:
    if count < 1:
        raise ValueError(f"count={count}: at least one request has to be meant")
    return count
