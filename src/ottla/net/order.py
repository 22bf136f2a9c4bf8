"""The answers of one connection that can't be sent yet because an earlier one is not known.

Empty almost always: an answer that nothing waits before never comes here.
"""

from typing import TypeAlias

from ottla.core.disk import FileSlice
from ottla.core.exchange import Answer, Deferred
from ottla.core.types import Buffer

_Parts: TypeAlias = list[Buffer | FileSlice]


class AnswerOrder:
    """Owned by its connection; the first entry, when there is one, is or was a Deferred."""

    __slots__ = ("entries", "queued_bytes")

    def __init__(self) -> None:
        self.entries: list[Deferred | Answer] = []  # for its length only; a call of `__len__` takes many times as long
        self.queued_bytes = 0  # of answers that are known and wait for an earlier one

    def __len__(self) -> int:
        return len(self.entries)

    def append(self, entry: Deferred | Answer) -> None:
        self.entries.append(entry)
        if not isinstance(entry, Deferred):
            self.queued_bytes += bytes_in_memory(entry)

    def take_only(self) -> bytes | None:
        """The answer of the only entry, if that is known and a single buffer."""
        entries = self.entries
        if len(entries) != 1:
            return None
        entry = entries[0]
        answer = entry.answer if isinstance(entry, Deferred) else None
        if type(answer) is not bytes:
            return None
        entries.clear()
        self.queued_bytes = 0
        return answer

    def release(self, ready: _Parts) -> None:
        """Move the answers up to the first unknown one to `ready`."""
        entries = self.entries
        count = 0
        for entry in entries:
            if isinstance(entry, Deferred):
                if not entry.is_complete:
                    break
                answer = entry.answer
                entry.answer = None
            else:
                answer = entry
            count += 1
            if answer is None:
                continue
            self.queued_bytes -= bytes_in_memory(answer)
            if isinstance(answer, list):
                ready.extend(answer)
            else:
                ready.append(answer)
        del entries[:count]

    def close(self) -> list[Deferred]:
        """Forget everything; those that are still unknown."""
        entries = self.entries
        self.entries = []
        self.queued_bytes = 0
        return [entry for entry in entries if isinstance(entry, Deferred) and not entry.is_complete]


def bytes_in_memory(answer: Answer) -> int:
    """The weight of an answer; slices of files have none."""
    if isinstance(answer, list):
        return sum(0 if isinstance(part, FileSlice) else len(part) for part in answer)
    return len(answer)
