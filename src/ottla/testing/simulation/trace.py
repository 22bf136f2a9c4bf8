"""What a run did, step by step: a digest of all of it, to hold two runs against each other, and its last steps for a
report."""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from struct import Struct
from typing import Any, Final, NamedTuple

LAST_STEPS: Final = 400
LAST_NOTES: Final = 60
FOLDED_AT: Final = 4 * LAST_STEPS

_pack_head = Struct("<dI").pack


class Step(NamedTuple):
    """One thing that happened, for people."""

    at_s: float
    process: str
    kind: str

    def __str__(self) -> str:
        return f"{self.at_s:14.6f}  {self.process:<12}  {self.kind}"


class Trace:
    """Owned by a scheduler. It keeps callbacks as they are, since naming each one costs more than running many."""

    __slots__ = ("_digest", "_folded", "_names", "_notes", "is_printing", "print_line", "steps")

    def __init__(self) -> None:
        self.steps: list[tuple[float, int, Callable[[], object] | str]] = []  # the scheduler appends to it directly
        self.is_printing = False
        self.print_line: Callable[[str], None] = print
        self._digest = blake2b(digest_size=16)
        self._folded = 0  # how many of `steps` are in the digest
        self._names: list[str] = []
        self._notes: deque[Step] = deque(maxlen=LAST_NOTES)

    def note(self, when: float, process: int, kind: str) -> None:
        """A step that somebody should know of: a fault, the start of a process."""
        self.steps.append((when, process, kind))
        self._notes.append(Step(when, self._names[process], kind))

    def name_process(self, name: str) -> int:
        """The number that stands for a process in the steps."""
        self._names.append(name)
        return len(self._names) - 1

    def fold(self) -> None:
        """Take the steps into the digest and keep only the last; called when there are FOLDED_AT of them."""
        parts: list[bytes] = []
        for when, process, done in self.steps[self._folded :]:
            parts.append(_pack_head(when, process))
            parts.append(kind_of(done).encode())
        self._digest.update(b"".join(parts))
        if self.is_printing:
            for step in self._named(self._folded):
                self.print_line(str(step))
        del self.steps[:-LAST_STEPS]
        self._folded = len(self.steps)

    def digest(self) -> str:
        """Of everything so far; equal for two runs that did the same."""
        self.fold()
        return self._digest.hexdigest()

    def last_steps(self) -> list[Step]:
        return list(self._named(-LAST_STEPS))

    def last_notes(self) -> list[Step]:
        return list(self._notes)

    def _named(self, start: int) -> Iterator[Step]:
        for when, process, done in self.steps[start:]:
            yield Step(when, self._names[process], kind_of(done))


def kind_of(done: Any) -> str:
    """The name of a callback, in words that are the same in every run; of a note, the note itself."""
    if type(done) is str:
        return done
    while type(done) is partial:
        done = done.func
    name: str | None = getattr(done, "__qualname__", None)
    return type(done).__qualname__ if name is None else name
