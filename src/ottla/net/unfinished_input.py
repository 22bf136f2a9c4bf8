"""The bytes that a connection has read and not started: the rest of a read, or a larger frame on its way.

Holds the connection's share of the buffer pool and of the memory budget, and gives it back. Knows no socket.
"""

from ottla.net.environment import Environment
from ottla.net.memory_budget import BudgetWaiter


class UnfinishedInput:
    """Owned by its connection. At most one of the three is there: carry, backlog, frame."""

    __slots__ = (
        "_environment",
        "backlog",
        "carry",
        "frame",
        "frame_filled",
        "frame_size",
        "granted_bytes",
        "started_tick",
    )

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.carry = b""  # the beginning of a small frame, or of a frame's size
        self.backlog: bytearray | None = None  # frames that have to wait, and whatever came behind them
        self.frame: memoryview | None = None  # a buffer of the pool in which a larger frame grows
        self.frame_size = 0
        self.frame_filled = 0
        self.granted_bytes = 0  # reserved by the budget for the frame that waited in its line
        self.started_tick = 0

    @property
    def unfinished_frame_bytes(self) -> int:
        return self.frame_filled + 4 if self.frame is not None else len(self.carry)

    @property
    def has_frame_in_backlog(self) -> bool:
        """Whether a whole frame was read that is not started yet."""
        backlog = self.backlog
        return backlog is not None and len(backlog) >= 4 and len(backlog) - 4 >= int.from_bytes(backlog[:4], "big")

    def keep_carry(self, rest: memoryview) -> None:
        self.carry = bytes(rest)

    def keep_backlog(self, rest: memoryview) -> None:
        self.backlog = bytearray(rest)
        self._environment.budget.set_aside(len(rest))

    def drop_backlog(self, backlog: bytearray) -> None:
        """The backlog was taken out and worked through."""
        self._environment.budget.release_aside(len(backlog))

    def begin_frame(self, waiter: BudgetWaiter, *, size: int, start: memoryview) -> bool:
        """Get a buffer for a frame and put its first bytes there; False when `waiter` now stands in line for it."""
        environment = self._environment
        if self.granted_bytes:
            assert self.granted_bytes == size
            self.granted_bytes = 0
        elif not environment.budget.take_or_wait(waiter, size):
            return False
        self.frame = frame = environment.pool.take(size)
        self.frame_size = size
        self.frame_filled = filled = len(start)
        frame[:filled] = start
        return True

    def drop_frame(self, frame: memoryview) -> None:
        """The frame's buffer is not needed any more."""
        self.frame = None
        self._environment.pool.give(frame)
        self._environment.budget.release(self.frame_size)

    def restart_clock(self) -> None:
        """The frame's deadline counts from now."""
        self.started_tick = self._environment.tick

    def drop_all(self) -> None:
        self.carry = b""
        if self.frame is not None:
            self.drop_frame(self.frame)
        backlog = self.backlog
        if backlog is not None:
            self.backlog = None
            self.drop_backlog(backlog)
        granted = self.granted_bytes
        if granted:
            self.granted_bytes = 0
            self._environment.budget.release(granted)
