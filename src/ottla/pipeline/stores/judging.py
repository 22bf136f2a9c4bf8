"""Which events of a batch are new, which are known, and which have the id of an event with another body.

A pure function of the batch and of the index of known ids; the same for every store.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.pipeline.stores.digests import Words
from ottla.pipeline.stores.id_index import IdIndex

Rows = npt.NDArray[np.int64]


class Ids(NamedTuple):
    """Digests of a batch's event ids and bodies."""

    first: Words
    second: Words
    body: Words

    def at(self, rows: Rows) -> "Ids":
        return Ids(self.first[rows], self.second[rows], self.body[rows])


class Verdict(NamedTuple):
    """Rows of the batch: events to keep, in their order, and those in conflict; the others are duplicates."""

    kept: Rows
    conflicts: Rows
    duplicates: int


def judge(ids: Ids, known: IdIndex, *, partition: npt.NDArray[np.int64], offset: npt.NDArray[np.int64]) -> Verdict:
    """For events of one table and one day. Of several events with one new id the first by origin is kept."""
    found, known_body = known.find(ids.first, ids.second)
    conflicts = np.nonzero(found & (known_body != ids.body))[0]
    unknown = np.nonzero(~found)[0]
    repeated = _repeated(ids.first[unknown])
    if len(repeated):
        dropped, rivals = _later_ones(ids, unknown[repeated], partition, offset)
        unknown = unknown[~np.isin(unknown, dropped)]
        conflicts = np.union1d(conflicts, np.array(rivals, np.int64))
    duplicates = len(ids.first) - len(unknown) - len(conflicts)
    return Verdict(unknown, conflicts.astype(np.int64), duplicates)


def _repeated(first: Words) -> Rows:
    """Rows of all values that occur more than once."""
    order = np.argsort(first, kind="stable")
    ordered = first[order]
    same_as_next = np.empty(len(first), np.bool_)
    same_as_next[-1:] = False
    np.equal(ordered[1:], ordered[:-1], out=same_as_next[:-1])
    same_as_last = np.zeros(len(first), np.bool_)
    same_as_last[1:] = same_as_next[:-1]
    return order[same_as_next | same_as_last]


def _later_ones(
    ids: Ids, rows: Rows, partition: npt.NDArray[np.int64], offset: npt.NDArray[np.int64]
) -> tuple[list[int], list[int]]:
    """Of events with repeated ids, all but the first of each id; and which of these are conflicts."""
    dropped: list[int] = []
    conflicts: list[int] = []
    first_bodies: dict[tuple[int, int], int] = {}
    by_origin = rows[np.lexsort((offset[rows], partition[rows]))]
    here = ids.at(by_origin)
    for row, first, second, body in zip(
        by_origin.tolist(), here.first.tolist(), here.second.tolist(), here.body.tolist(), strict=True
    ):
        kept_body = first_bodies.get((first, second))
        if kept_body is None:
            first_bodies[first, second] = body
            continue
        dropped.append(row)
        if kept_body != body:
            conflicts.append(row)
    return dropped, conflicts
