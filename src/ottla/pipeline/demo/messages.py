"""What the jobs say, without what was said before: a job that fails and is restarted says the same again and again."""

import re
from collections.abc import Iterable
from typing import Final

_FIGURES: Final = re.compile(r"\d+")


class NewMessages:
    """Of one run. Of messages that differ in figures alone, the first is enough: all are in the log of the jobs."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def among(self, messages: Iterable[str]) -> list[str]:
        new = []
        for message in messages:
            kind = _FIGURES.sub("", message)
            if kind not in self._seen:
                self._seen.add(kind)
                new.append(message)
        return new
