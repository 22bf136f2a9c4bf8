"""Which event ids are known, and with which bodies: sorted runs of digests that are merged as they grow.

Stores fill it from their rows. It takes 24 bytes for an id. Long runs are mapped from unnamed files, so a day of many
events takes disk space, and memory only as far as the machine has some to spare.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.pipeline.stores.digests import Words

BYTES_PER_ID: Final = 24
# For all days that a store keeps in memory: 16 million ids.
INDEX_BYTES_MAX: Final = 384 * 1024 * 1024
_MAPPED_IDS: Final = 64 * 1024  # shorter runs stay in memory: each mapped file is an open file


class Run(NamedTuple):
    """Ids, sorted by the first halves of their digests."""

    first: Words
    second: Words
    body: Words


class IdIndex:
    """It only grows. Each run has at most half the length of the one before, so there are few of them."""

    __slots__ = ("_folder", "_runs")

    def __init__(self, folder: Path) -> None:
        """`folder` is on a disk with room for its files."""
        self._folder = folder
        self._runs: list[Run] = []

    def __len__(self) -> int:
        return sum(len(run.first) for run in self._runs)

    def add(self, first: Words, second: Words, body: Words) -> None:
        if not len(first):
            return
        merged, count = [Run(first, second, body)], len(first)
        while self._runs and len(self._runs[-1].first) < 2 * count:
            merged.insert(0, self._runs.pop())
            count += len(merged[0].first)
        self._runs.append(_sorted(merged, self._folder))

    def find(self, first: Words, second: Words) -> tuple[npt.NDArray[np.bool_], Words]:
        """Whether each id is known, and its body's digest where it is."""
        found = np.zeros(len(first), np.bool_)
        bodies = np.zeros(len(first), np.uint64)
        for run in self._runs:
            last = len(run.first) - 1
            positions = np.searchsorted(run.first, first)
            inside = np.minimum(positions, last)
            waiting = np.nonzero((positions <= last) & (run.first[inside] == first))[0]
            positions = positions[waiting]
            # Nearly always one turn: equal first halves belong to the same id.
            while len(waiting):
                same = run.second[positions] == second[waiting]
                found[waiting[same]] = True
                bodies[waiting[same]] = run.body[positions[same]]
                waiting, positions = waiting[~same], positions[~same] + 1
                there = positions <= last
                waiting, positions = waiting[there], positions[there]
                alike = run.first[positions] == first[waiting]
                waiting, positions = waiting[alike], positions[alike]
        return found, bodies


def _sorted(runs: Sequence[Run], folder: Path) -> Run:
    order = np.argsort(np.concatenate([run.first for run in runs]), kind="stable")

    def columns() -> Iterator[Words]:
        """One after the other: all at once would need the memory of the whole index again."""
        return (np.concatenate(column)[order] for column in zip(*runs, strict=True))

    if len(order) >= _MAPPED_IDS:
        try:
            return _mapped(columns(), folder)
        except OSError:
            pass  # the disk is full: it will do in memory until it is not
    return Run(*columns())


def _mapped(columns: Iterable[Words], folder: Path) -> Run:
    with tempfile.TemporaryFile(dir=folder) as file:
        for column in columns:
            file.write(column.data)
        file.flush()
        return Run(*np.asarray(np.memmap(file, np.uint64, "r")).reshape(3, -1))
