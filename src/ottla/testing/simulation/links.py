"""Connections out of a simulated process: what `links/` needs of its loop, over the simulated network."""

from collections.abc import Callable, Sequence

from ottla.core.types import Buffer
from ottla.links.addresses import Address
from ottla.links.wire import Wire
from ottla.testing.simulation.endpoint import Endpoint
from ottla.testing.simulation.network import Host, SimulatedNetwork
from ottla.testing.simulation.scheduler import ProcessLoop, Timer


class SimulatedLinks:
    """Implements `links/link.py` ClientLoop for one life of a process."""

    __slots__ = ("_host", "_loop", "_streams")

    def __init__(self, streams: SimulatedNetwork, host: Host, loop: ProcessLoop) -> None:
        self._streams = streams
        self._host = host
        self._loop = loop

    def now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay_ms / 1000, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def open(self, address: Address, wire: Wire) -> "SimulatedChannel":
        channel = SimulatedChannel(wire)
        channel.endpoint = self._streams.connect(self._host, self._loop, address, channel)
        return channel


class SimulatedChannel:
    """The client's end of one connection."""

    __slots__ = ("_wire", "endpoint")

    endpoint: Endpoint

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    # For the wire

    def send(self, parts: Sequence[Buffer]) -> None:
        self.endpoint.send(b"".join(parts))

    def close(self) -> None:
        self.endpoint.close()

    # For the stream

    def on_connected(self) -> None:
        self._wire.connected()

    def on_bytes(self, data: bytes) -> None:
        wire = self._wire
        position = 0
        while position < len(data) and not self.endpoint.is_closed:
            buffer = wire.buffer()
            piece = data[position : position + len(buffer)]
            buffer[: len(piece)] = piece
            position += len(piece)
            wire.received(len(piece))

    def on_end(self, reason: str) -> None:
        self._wire.lost(reason)
