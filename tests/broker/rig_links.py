"""Connections between rigs without sockets: what a link sends goes to the dispatcher of the rig at that address."""

from collections.abc import Callable, Sequence

from ottla.core.exchange import Answer, Deferred
from ottla.core.types import Buffer
from ottla.links.addresses import Address
from ottla.links.wire import Wire
from tests.broker.rig import FakePeer, Rig, bytes_of
from tests.storage.hand_driven import HandLoop, HandTimer


class RigLinks:
    """The `ClientLoop` of a process whose peers are rigs, by address; one that is not there can't be reached."""

    def __init__(self, loop: HandLoop) -> None:
        self._loop = loop
        self.rigs: dict[Address, Rig] = {}
        self.channels: list[RigChannel] = []

    def now_ms(self) -> int:
        return round(self._loop.now * 1000)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> HandTimer:
        return self._loop.call_at(self._loop.now + delay_ms / 1000, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def open(self, address: Address, wire: Wire) -> "RigChannel":
        channel = RigChannel(wire, self.rigs.get(address), self.call_soon)
        self.channels.append(channel)
        return channel


class RigChannel:
    """One connection; answers come on a later turn."""

    def __init__(self, wire: Wire, rig: Rig | None, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self._wire = wire
        self._rig = rig
        self._call_soon = call_soon
        self._peer = FakePeer()
        self.is_closed = False
        self.sent = 0  # frames
        call_soon(wire.connected if rig is not None else lambda: wire.lost("refused"))

    def send(self, parts: Sequence[Buffer]) -> None:
        frame = b"".join(parts)
        self.sent += 1
        self._call_soon(lambda: self._deliver(frame))

    def close(self) -> None:
        self.is_closed = True

    def cut(self) -> None:
        """The peer is gone; what it was sent may have been carried out."""
        if not self.is_closed:
            self._wire.lost("reset")

    def _deliver(self, frame: bytes) -> None:
        assert self._rig is not None
        answer = self._rig.send(frame, self._peer)
        if isinstance(answer, Deferred) and not answer.is_complete:
            answer.on_complete = self._receive
        else:
            self._receive(answer)

    def _receive(self, answer: Answer | Deferred | None) -> None:
        data = bytes_of(answer)

        def take() -> None:
            if not self.is_closed:
                self._wire.buffer()[: len(data)] = data
                self._wire.received(len(data))

        self._call_soon(take)
