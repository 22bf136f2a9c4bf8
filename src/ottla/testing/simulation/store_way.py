"""The ways between processes and the coordination store: as late as all messages, and held by the same partitions."""

from collections.abc import Callable
from typing import Final, TypeAlias

from ottla.testing.simulation.network import SimulatedNetwork
from ottla.testing.simulation.scheduler import ProcessLoop

STORE: Final = "store"
Message: TypeAlias = Callable[[], None]


class StoreWays:
    """Made by the cluster; `loop` is the store's own."""

    def __init__(self, streams: SimulatedNetwork, loop: ProcessLoop) -> None:
        self._streams = streams
        self._loop = loop
        self._held: list[tuple[StoreCourier, Message]] = []
        streams.on_unblocked.append(self._release)

    def to_store(self, name: str, sender: ProcessLoop) -> "StoreCourier":
        return StoreCourier(self._streams, (name, STORE), self._held, sender=sender, receiver=self._loop)

    def from_store(self, name: str, receiver: ProcessLoop) -> "StoreCourier":
        return StoreCourier(self._streams, (STORE, name), self._held, sender=self._loop, receiver=receiver)

    def _release(self) -> None:
        held, self._held[:] = list(self._held), []
        for courier, message in held:
            courier.carry(message)


class StoreCourier:
    """Carries messages one way, for one life of a process; implements `coordination/memory_connection.py` Courier."""

    __slots__ = ("_held", "_receiver", "_sender", "_streams", "_way")

    def __init__(
        self,
        streams: SimulatedNetwork,
        way: tuple[str, str],
        held: list[tuple["StoreCourier", Message]],
        *,
        sender: ProcessLoop,
        receiver: ProcessLoop,
    ) -> None:
        self._streams = streams
        self._way = way
        self._held = held
        self._sender = sender
        self._receiver = receiver

    def carry(self, message: Message, /) -> None:
        if self._sender.is_dead or self._receiver.is_dead:
            return
        streams = self._streams
        if self._way in streams.blocked:
            self._held.append((self, message))
        else:
            scheduler = streams.scheduler
            scheduler.call_at(scheduler.now + streams.delay(self._way), message, self._receiver)
