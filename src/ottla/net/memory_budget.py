"""How many bytes of unfinished requests all connections together may hold, and the line of those that wait.

A frame reserves its whole size before its first byte is stored: reserving piece by piece could leave every frame
half read with nothing left to finish any of them.
"""

from typing import Protocol


class BudgetWaiter(Protocol):
    """A connection in the line."""

    def on_budget_granted(self, length: int) -> None:
        """`length` bytes are reserved for it now; called on the loop, must only take note and schedule."""
        ...


class MemoryBudget:
    """Owned by the server; first come, first served, so that a large frame isn't overtaken for ever by small ones."""

    __slots__ = ("_waiters", "aside_bytes", "is_tight", "max_bytes", "reserved_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._waiters: dict[BudgetWaiter, int] = {}  # in the order they came
        self.reserved_bytes = 0  # of frames that are being read
        self.aside_bytes = 0  # read already and set aside until their connection goes on
        self.is_tight = False  # somebody waits, or the bound is reached: connections read in small chunks

    def take_or_wait(self, waiter: BudgetWaiter, length: int) -> bool:
        """Reserve at once (True), or put `waiter` at the end of the line."""
        is_granted = not self._waiters and self._fits(length)
        if is_granted:
            self.reserved_bytes += length
        else:
            self._waiters[waiter] = length
        self._update_tight()
        return is_granted

    def release(self, length: int) -> None:
        """Give a reservation back."""
        self.reserved_bytes -= length
        self._grant()
        self._update_tight()

    def set_aside(self, length: int) -> None:
        """Account for bytes that are in memory already; they may overstep the bound, by one read per connection."""
        self.aside_bytes += length
        self._update_tight()

    def release_aside(self, length: int) -> None:
        self.aside_bytes -= length
        self._grant()
        self._update_tight()

    def leave_line(self, waiter: BudgetWaiter) -> None:
        """`waiter` is gone; those behind it may fit now."""
        if self._waiters.pop(waiter, None) is not None:
            self._grant()
            self._update_tight()

    @property
    def waiting_count(self) -> int:
        return len(self._waiters)

    def _fits(self, length: int) -> bool:
        # With nothing reserved any frame is let in: one over the whole budget, or one that only the bytes set aside
        # (its own among them) stand in the way of, would otherwise wait for ever.
        return self.reserved_bytes + self.aside_bytes + length <= self.max_bytes or self.reserved_bytes == 0

    def _grant(self) -> None:
        waiters = self._waiters
        while waiters:
            waiter, length = next(iter(waiters.items()))
            if not self._fits(length):
                return
            del waiters[waiter]
            self.reserved_bytes += length
            waiter.on_budget_granted(length)

    def _update_tight(self) -> None:
        self.is_tight = bool(self._waiters) or self.reserved_bytes + self.aside_bytes >= self.max_bytes
