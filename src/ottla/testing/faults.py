"""The faults that a test has set, and its handles on them.

The proxy's thread owns the board; the test owns the handles, which reach the board through `FaultBoard.run`.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from ottla.core.errors import ErrorCode
from ottla.protocol.apis import ApiKey
from ottla.protocol.frames import RequestHeader
from ottla.testing.waiting import wait_until

_SEEN_MAX: Final = 10_000

T = TypeVar("T")
FaultT = TypeVar("FaultT", bound="Fault")
Moment: TypeAlias = Literal["before", "after"]


class SeenRequest(NamedTuple):
    """A request that came through the proxy, in the order of arrival."""

    api: ApiKey
    version: int
    client_id: str | None


class Pumped(Protocol):
    """A connection with requests or answers that may wait for a fault to end."""

    def pump(self) -> None: ...


class FaultBoard:
    """All active faults. `run` executes a function in the thread that owns the board, and waits for its result."""

    def __init__(self, run: Callable[[Callable[[], Any]], Any]) -> None:
        self._run = run
        self.faults: list[Fault] = []
        self.seen: deque[SeenRequest] = deque(maxlen=_SEEN_MAX)
        self.connections: set[Pumped] = set()

    def run(self, function: Callable[[], T]) -> T:
        result: T = self._run(function)
        return result

    def add(self, fault: FaultT) -> FaultT:
        self.run(lambda: self.faults.append(fault))
        return fault

    def clear(self) -> None:
        """Remove all faults; held requests go on."""

        def clear() -> None:
            self.faults.clear()
            self._pump_all()

        self.run(clear)

    def remove(self, fault: "Fault") -> None:
        def remove() -> None:
            if fault in self.faults:
                self.faults.remove(fault)
                self._pump_all()

        self.run(remove)

    def delay_ms(self, header: RequestHeader) -> float:
        """How long a request that arrives now must wait."""
        delay_ms = 0.0
        for fault in self.faults:
            if isinstance(fault, Delay) and fault.matches(header):
                fault.used += 1
                delay_ms += fault.delay_ms
        return delay_ms

    def hold_on(self, header: RequestHeader, *, answers: bool) -> "Hold | None":
        for fault in self.faults:
            if isinstance(fault, Hold) and fault.answers == answers and fault.matches(header):
                return fault
        return None

    def next_failure(self, header: RequestHeader) -> "FailNext | CutNext | None":
        """The oldest fault that applies to this request; the caller marks it as used."""
        for fault in self.faults:
            if isinstance(fault, FailNext | CutNext) and fault.left and fault.matches(header):
                return fault
        return None

    def use(self, fault: "FailNext | CutNext") -> None:
        fault.used += 1
        fault.left -= 1
        if not fault.left:
            self.faults.remove(fault)

    def _pump_all(self) -> None:
        for connection in list(self.connections):
            connection.pump()


class Fault:
    """Active from its creation until it is used up, removed, or its `with` block ends."""

    def __init__(self, board: FaultBoard, api: ApiKey | None, client_id: str | None) -> None:
        self.api = api
        self.client_id = client_id
        self.used = 0  # requests that it has met
        self._board = board

    def __enter__(self: FaultT) -> FaultT:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove it; a second call is not an error."""
        self._board.remove(self)

    def wait_until_used(self, count: int = 1, *, timeout_ms: int = 10_000) -> None:
        """Waits until a number of requests have met it."""
        wait_until(
            lambda: self.used >= count,
            what=f"{self} met {count} requests",
            timeout_ms=timeout_ms,
            seen=lambda: f"it met {self.used}",
        )

    def matches(self, header: RequestHeader) -> bool:
        return (self.api is None or self.api == header.api_key) and (
            self.client_id is None or self.client_id == header.client_id
        )

    def __repr__(self) -> str:
        whose = f" of client {self.client_id}" if self.client_id is not None else ""
        return f"{type(self).__name__}({self.api.name if self.api is not None else 'any API'}{whose})"


class Delay(Fault):
    """Every matching request waits before it goes to the broker, and so do those after it on its connection."""

    def __init__(self, board: FaultBoard, api: ApiKey | None, client_id: str | None, *, delay_ms: float) -> None:
        super().__init__(board, api, client_id)
        self.delay_ms = delay_ms


class Hold(Fault):
    """Matching requests, or only their responses, stay in the proxy until `release`; `used` counts them."""

    def __init__(self, board: FaultBoard, api: ApiKey | None, client_id: str | None, *, answers: bool) -> None:
        super().__init__(board, api, client_id)
        self.answers = answers

    def release(self) -> None:
        """Let everything go on, in its order."""
        self.remove()


class FailNext(Fault):
    """The next requests get an error; `applied`: after the broker has done what they ask."""

    def __init__(
        self,
        board: FaultBoard,
        api: ApiKey,
        client_id: str | None,
        *,
        count: int,
        error: ErrorCode,
        applied: bool,
    ) -> None:
        super().__init__(board, api, client_id)
        self.left = count
        self.error = error
        self.applied = applied


class CutNext(Fault):
    """The next requests lose their connection: before the broker gets them, or after it has responded."""

    def __init__(
        self, board: FaultBoard, api: ApiKey | None, client_id: str | None, *, count: int, when: Moment
    ) -> None:
        super().__init__(board, api, client_id)
        self.left = count
        self.when = when
