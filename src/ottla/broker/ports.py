"""All that a broker core needs of the world around it.

`Broker` has sockets, threads and the machine's files behind these; a test or a simulation has its own.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ottla.coordination.store import Store
from ottla.core.clock import Background, Clock
from ottla.core.config.listeners import Listener
from ottla.core.disk import Disk
from ottla.core.exchange import FrameHandler
from ottla.net.limits import NetworkLimits

if TYPE_CHECKING:
    from ottla.links.link import ClientLoop  # a broker that is alone opens no connection, and imports nothing of it

T = TypeVar("T")
R = TypeVar("R")


class TimerHandle(Protocol):
    def cancel(self) -> None: ...


class Loop(Protocol):
    """The turns of one thread and its monotonic clock; asyncio's loops have these methods."""

    def time(self) -> float:
        """Seconds since any moment; not the time of day."""
        ...

    def call_soon(self, callback: Callable[[], object], /) -> object:
        """On the next turn, in the order of the calls."""
        ...

    def call_at(self, when: float, callback: Callable[[], object], /) -> TimerHandle: ...


class Threads(Background, Protocol):
    """The background of a whole broker, from its start to its stop."""

    def resize(self, threads: int) -> None:
        """Run at most `threads` threads from now on."""
        ...

    def map(self, work: Callable[[T], R], items: Iterable[T], *, threads: int) -> Sequence[R]:
        """As the built-in one, but on threads of its own. Blocks: only for work that is in the background already."""
        ...

    def run_last(self, work: Callable[[], Any], on_done: Callable[[Any, BaseException | None], None]) -> None:
        """Drop what has not begun, and what comes later; do `work` when everything that runs has ended."""
        ...


class Network(Protocol):
    """Where clients come from (`net/server.py`). Their frames go to the handler that it was made with."""

    def bind(self, listeners: Iterable[Listener]) -> tuple[Listener, ...]:
        """The listeners as bound, with the ports that were chosen; nobody is accepted yet. OSError: none is bound."""
        ...

    def start_accepting(self) -> None: ...

    def update_connection_limits(self, limits: NetworkLimits) -> None: ...

    def stop(self, *, drain_ms: int, on_stopped: Callable[[], None]) -> None:
        """Start no request, answer those that were started for at most `drain_ms`, then close all; calls back once."""
        ...


class BrokerPorts(NamedTuple):
    """The store and the network are opened within the start and closed within the stop, each once."""

    loop: Loop
    clock: Clock  # the time of day
    background: Threads
    disk: Disk
    random: Random
    open_store: Callable[[], Store]
    open_network: Callable[[FrameHandler, NetworkLimits], Network]
    on_failed: Callable[[], None]  # the broker can't go on: `fatal_reason` says why
    host_name: str  # what is advertised for a listener on every address
    open_files_max: int  # files of segments that are kept open
    locks_log_dirs: bool  # against other processes; a simulated disk has none
    boot_id: str  # of the machine: another one after each boot; empty where the system has none
    links: "ClientLoop"  # connections out to other brokers
    joins_cluster: bool = False  # other brokers have the same store; else this one is alone, and makes no link
