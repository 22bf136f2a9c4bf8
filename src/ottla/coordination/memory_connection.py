"""The way between a client and the ensemble in memory: who carries messages, and what can happen to them.

A message is a callback that is run at its receiver. Within one direction of one connection they arrive in the order in
which they were sent: one that is lost on the way stops all behind it, until the connection is given up.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias

from ottla.coordination.memory_messages import ClientSide

Message: TypeAlias = Callable[[], None]


class TimerHandle(Protocol):
    def cancel(self) -> None: ...


class EnsembleLoop(Protocol):
    """The turns of one process and its monotonic clock: the ensemble has one, and each client."""

    def time(self) -> float:
        """Seconds since any moment."""
        ...

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """On the next turn, in the order of the calls."""
        ...

    def call_at(self, when: float, callback: Callable[[], None], /) -> TimerHandle: ...


class Courier(Protocol):
    """Brings messages to one process. A simulation delays, holds or drops them; their order needn't be kept."""

    def carry(self, message: Message, /) -> None:
        """Run `message` in the process that it goes to; never inside this call."""
        ...


class LoopCourier:
    """Brings each message on the next turn of its receiver."""

    __slots__ = ("_call_soon",)

    def __init__(self, loop: EnsembleLoop) -> None:
        self._call_soon = loop.call_soon

    def carry(self, message: Message, /) -> None:
        self._call_soon(message)


class Reach:
    """What lies between the ensemble and one client process, over all connections that it opens; for faults."""

    __slots__ = ("connections", "held", "is_cut", "is_stalled")

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.is_cut = False  # connections are refused
        self.is_stalled = False  # messages wait in `held`
        self.held: list[Callable[[], None]] = []

    def cut(self) -> None:
        self.is_cut = True
        self.is_stalled = False
        self.held.clear()
        self.break_connections()

    def break_connections(self) -> None:
        connections, self.connections = self.connections, []
        for connection in connections:
            connection.break_off()

    def restore(self) -> None:
        self.is_cut = self.is_stalled = False
        held, self.held = self.held, []
        for carry_again in held:
            carry_again()


class Direction:
    """One direction of one connection."""

    __slots__ = ("_arrived", "_carry", "_next", "_reach", "_sent", "is_open")

    def __init__(self, courier: Courier, reach: Reach) -> None:
        self._carry = courier.carry
        self._reach = reach
        self._sent = 0
        self._next = 0
        self._arrived: dict[int, Message] = {}  # before one that was sent earlier
        self.is_open = True

    def send(self, message: Message) -> None:
        if self.is_open:
            self._carry(partial(self._arrive, self._sent, message))
            self._sent += 1

    def _arrive(self, number: int, message: Message) -> None:
        if not self.is_open:
            return
        if self._reach.is_stalled:
            # Carried once more later: the receiver may be another process by then, or none.
            self._reach.held.append(partial(self._carry, partial(self._arrive, number, message)))
            return
        self._arrived[number] = message
        while self.is_open and self._next in self._arrived:
            next_message = self._arrived.pop(self._next)
            self._next += 1
            next_message()


class Connection:
    """Both directions. Whoever breaks it off, the client hears of it by `on_lost`, unless it closed it itself."""

    __slots__ = ("_carry_to_client", "_on_lost", "_reach", "client", "name", "session_id", "to_client", "to_ensemble")

    def __init__(
        self,
        name: str,
        reach: Reach,
        client: ClientSide,
        *,
        to_ensemble: Courier,
        to_client: Courier,
        on_lost: Callable[["Connection"], None],
    ) -> None:
        self.name = name  # of the client's process
        self.client = client
        self._reach = reach
        self._on_lost = on_lost
        self._carry_to_client = to_client.carry
        self.to_ensemble = Direction(to_ensemble, reach)
        self.to_client = Direction(to_client, reach)
        self.session_id = 0  # set by the ensemble when it takes the connection on
        reach.connections.append(self)

    def break_off(self) -> None:
        """Drop all that is under way; the client hears that the connection is lost."""
        self.lose_answers()
        self.close()

    def lose_answers(self) -> None:
        """Drop all that is under way to the client; what it has sent still arrives, until it connects anew."""
        if self.to_client.is_open:
            self.to_client.is_open = False
            self._carry_to_client(self._report_loss)

    def close(self) -> None:
        """Nothing more arrives on either side."""
        self.to_ensemble.is_open = self.to_client.is_open = False
        if self in self._reach.connections:
            self._reach.connections.remove(self)

    def _report_loss(self) -> None:
        if self._reach.is_stalled:
            self._reach.held.append(partial(self._carry_to_client, self._report_loss))
        else:
            self._on_lost(self)
