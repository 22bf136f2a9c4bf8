"""Batched connections: the broker reads them together, some hundred times a second at most, instead of one by one.

To wake up for a single heartbeat costs the broker several times what the heartbeat does. So an epoll of their own
gathers the readiness of all batched connections, and the loop sees one descriptor (decision 0007). A connection decides
by itself when it becomes batched.
"""

from typing import TYPE_CHECKING, Protocol

from ottla.core.operating_system import EPOLLIN, Epoll, open_epoll

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Handle

# How long a request of a batched connection may lie there before it is read.
BATCH_WAIT_MS = 10

_READY_PER_TURN_MAX = 128


class BatchedConnection(Protocol):
    """A connection, as this module sees it."""

    @property
    def fd(self) -> int: ...

    def on_batched_readable(self) -> None:
        """There is something to read; it may close the connection, or `remove` it."""
        ...

    def send_batched(self, answer: bytes) -> None: ...


class BatchedConnections:
    """Owned by the environment. Holds nothing, no descriptor and no timer, as long as no connection is batched."""

    __slots__ = ("_by_fd", "_epoll", "_is_watched", "_loop", "_timer", "answers")

    def __init__(self, loop: "AbstractEventLoop") -> None:
        self._loop = loop
        self._by_fd: dict[int, BatchedConnection] = {}
        self._epoll: Epoll | None = None
        self._is_watched = False  # by the loop, for the first that gets ready; otherwise a look is planned
        self._timer: Handle | None = None
        # Of the requests that are being served; sent when all are: one and the same step after the other costs less.
        self.answers: list[tuple[BatchedConnection, bytes]] = []

    def __len__(self) -> int:
        return len(self._by_fd)

    def add(self, connection: BatchedConnection) -> bool:
        """False where there is no epoll, or no room for it (open files, watches): then the loop goes on watching."""
        if open_epoll is None:
            return False
        try:
            epoll = self._epoll or open_epoll()
            epoll.register(connection.fd, EPOLLIN)
        except OSError:
            return False
        self._by_fd[connection.fd] = connection
        if self._epoll is None:
            self._epoll = epoll
            self._watch(epoll)
        return True

    def remove(self, connection: BatchedConnection) -> None:
        epoll = self._epoll
        assert epoll is not None
        del self._by_fd[connection.fd]
        epoll.unregister(connection.fd)
        if self._by_fd:
            return
        self._epoll = None
        self._unwatch(epoll)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        epoll.close()

    def _watch(self, epoll: Epoll) -> None:
        self._is_watched = True
        self._loop.add_reader(epoll.fileno(), self._on_first_ready)

    def _unwatch(self, epoll: Epoll) -> None:
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_reader(epoll.fileno())

    def _on_first_ready(self) -> None:
        """Not served at once: the others that get ready in the meantime come along."""
        assert self._epoll is not None
        self._unwatch(self._epoll)
        self._timer = self._loop.call_later(BATCH_WAIT_MS / 1000, self._serve)

    def _serve(self) -> None:
        self._timer = None
        epoll = self._epoll
        assert epoll is not None
        ready = epoll.poll(0, _READY_PER_TURN_MAX)
        by_fd = self._by_fd
        for fd, _ in ready:
            connection = by_fd.get(fd)
            if connection is not None:
                connection.on_batched_readable()
        answers, self.answers = self.answers, []
        for connection, answer in answers:
            connection.send_batched(answer)
        if self._epoll is not epoll:
            return  # the last one has left
        if len(ready) == _READY_PER_TURN_MAX:
            self._timer = self._loop.call_soon(self._serve)  # after the other events of this turn
        elif ready:
            self._timer = self._loop.call_later(BATCH_WAIT_MS / 1000, self._serve)
        else:
            self._watch(epoll)
