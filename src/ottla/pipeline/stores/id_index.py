"""Which event ids are known, and with which bodies: sorted runs of digests that are merged as they grow.

Owns no files: stores fill it from what they hold. 24 bytes an id.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.pipeline.stores.digests import Words

BYTES_PER_ID: Final = 24
# Of all days that a store keeps at hand: 16 million ids.
INDEX_BYTES_MAX: Final = 384 * 1024 * 1024


class Run(NamedTuple):
    """Ids in the order of the first halves of their digests."""

    first: Words
    second: Words
    body: Words


class IdIndex:
    """Grows only. Runs at least halve in length from one to the next, so that there are few of them."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def __len__(self) -> int:
        return sum(len(run.first) for run in self._runs)

    def add(self, first: Words, second: Words, body: Words) -> None:
        if not len(first):
            return
        self._runs.append(_sorted(Run(first, second, body)))
        while len(self._runs) > 1 and len(self._runs[-2].first) < 2 * len(self._runs[-1].first):
            newer, older = self._runs.pop(), self._runs.pop()
            self._runs.append(_sorted(Run(*(np.concatenate(parts) for parts in zip(older, newer, strict=True)))))

    def find(self, first: Words, second: Words) -> tuple[npt.NDArray[np.bool_], Words]:
        """Whether each id is known, and its body's digest where it is."""
        found = np.zeros(len(first), np.bool_)
        bodies = np.zeros(len(first), np.uint64)
        for run in self._runs:
            last = len(run.first) - 1
            places = np.searchsorted(run.first, first)
            inside = np.minimum(places, last)
            waiting = np.nonzero((places <= last) & (run.first[inside] == first))[0]
            places = places[waiting]
            # Nearly always one turn: first halves that are the same belong to the same id.
            while len(waiting):
                same = run.second[places] == second[waiting]
                found[waiting[same]] = True
                bodies[waiting[same]] = run.body[places[same]]
                waiting, places = waiting[~same], places[~same] + 1
                there = places <= last
                waiting, places = waiting[there], places[there]
                alike = run.first[places] == first[waiting]
                waiting, places = waiting[alike], places[alike]
        return found, bodies


def _sorted(run: Run) -> Run:
    order = np.argsort(run.first, kind="stable")
    return Run(run.first[order], run.second[order], run.body[order])
