"""Answers that are due, held back until the state that they speak of is complete.

An answer may run the next request of its connection right inside the call, and that request may be for the same
group. So nothing is answered in the middle of a change: answers are gathered, and given at the end of an event.
"""

from collections import deque
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse

ResponseT = TypeVar("ResponseT")

JoinAnswer: TypeAlias = Callable[[JoinGroupResponse], None]
SyncAnswer: TypeAlias = Callable[[SyncGroupResponse], None]


class Answers:
    """Owned by one `Groups`; whoever handles an event calls `give` last."""

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due: deque[Callable[[], None]] = deque()

    def add(self, answer: Callable[[ResponseT], None], response: ResponseT) -> None:
        self._due.append(lambda: answer(response))

    def give(self) -> None:
        """Oldest first; a request that comes in meanwhile gives the rest."""
        due = self._due
        while due:
            due.popleft()()
