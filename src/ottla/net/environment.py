"""What all connections of one server share: the loop, the scratch buffer, the limits, the counters, the run queue.

Everything here is used on the loop's thread only.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Protocol

from ottla.core.exchange import FrameHandler
from ottla.net.batched import BatchedConnections
from ottla.net.bounded_log import BoundedLog
from ottla.net.buffer_pool import BufferPool
from ottla.net.limits import NetworkLimits
from ottla.net.memory_budget import MemoryBudget
from ottla.net.page_cache import PageCacheProbe

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from ottla.net.connection import Connection

# What a connection reads at once, apart from the body of a larger frame. It is also all that has to be copied aside
# when a request holds the connection, so it is smaller while memory is short.
READ_CHUNK_BYTES = 128 * 1024
TIGHT_READ_CHUNK_BYTES = 8 * 1024

# A frame up to this size that is cut off is read on behind what is there, together with the frames after it.
CARRY_FRAME_MAX_BYTES = 4 * 1024


class NetworkMetrics:
    """Plain integers that the loop's thread adds to and anybody may read.

    `connections` is the number now, everything else only grows.
    """

    __slots__ = ("accepted", "bytes_in", "bytes_out", "closed", "cold_reads", "connections", "frames", "refused")

    def __init__(self) -> None:
        self.connections = 0
        self.accepted = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.frames = 0
        self.cold_reads = 0
        self.closed: dict[str, int] = {}  # by reason
        self.refused: dict[str, int] = {}  # by the limit that was reached

    def count_closed(self, reason: str) -> None:
        self.closed[reason] = self.closed.get(reason, 0) + 1

    def count_refused(self, limit: str) -> None:
        self.refused[limit] = self.refused.get(limit, 0) + 1


class Runnable(Protocol):
    """Something with work left for the next turn of the loop."""

    def run(self) -> None: ...


class Environment:
    """Made by the server; connections hold it and nothing else of the server."""

    __slots__ = (
        "_on_closed",
        "_run_queue",
        "budget",
        "executor",
        "handler",
        "limits",
        "log",
        "loop",
        "metrics",
        "page_cache",
        "pool",
        "batched",
        "scratch",
        "read_chunk",
        "tick",
        "tight_read_chunk",
        "watched",
    )

    def __init__(
        self,
        loop: "AbstractEventLoop",
        handler: FrameHandler,
        limits: NetworkLimits,
        executor: Executor,
        *,
        on_closed: "Callable[[Connection], None]",
    ) -> None:
        self.loop = loop
        self.handler = handler
        self.limits = limits
        self.executor = executor
        self.metrics = NetworkMetrics()
        self.log = BoundedLog()
        self.pool = BufferPool()
        self.budget = MemoryBudget(limits.in_flight_max_bytes)
        self.page_cache = PageCacheProbe()
        self.batched = BatchedConnections(loop)
        self.scratch = memoryview(bytearray(READ_CHUNK_BYTES + CARRY_FRAME_MAX_BYTES))
        self.read_chunk = self.scratch[:READ_CHUNK_BYTES]
        self.tight_read_chunk = self.scratch[:TIGHT_READ_CHUNK_BYTES]
        self.tick = 0  # the coarse clock: sweeps so far
        self.watched: list[Connection] = []  # with a frame half read or output stuck; the sweep looks after them
        self._run_queue: list[Runnable] = []
        self._on_closed = on_closed

    def schedule(self, runnable: Runnable) -> None:
        """Run it on the next turn of the loop, together with all others that are scheduled now."""
        queue = self._run_queue
        queue.append(runnable)
        if len(queue) == 1:
            self.loop.call_soon(self._run_scheduled)

    def forget(self, connection: "Connection") -> None:
        """The connection is closed."""
        self._on_closed(connection)

    def _run_scheduled(self) -> None:
        queue = self._run_queue
        self._run_queue = []
        for runnable in queue:
            runnable.run()
