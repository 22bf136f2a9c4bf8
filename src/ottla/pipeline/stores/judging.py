"""Which events of a batch are new, which are known, and which have an id that belongs to another body.

A pure function of the batch and of the index of what is known; the same for every store.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.pipeline.stores.digests import Words
from ottla.pipeline.stores.id_index import IdIndex

Places = npt.NDArray[np.int64]


class Ids(NamedTuple):
    """Digests of a batch's event ids and bodies."""

    first: Words
    second: Words
    body: Words

    def at(self, places: Places) -> "Ids":
        return Ids(self.first[places], self.second[places], self.body[places])


class Verdict(NamedTuple):
    """Places in the batch: events to be kept, in their order, and those in conflict; the others are duplicates."""

    kept: Places
    conflicts: Places
    duplicates: int


def judge(ids: Ids, known: IdIndex, *, partition: npt.NDArray[np.int64], offset: npt.NDArray[np.int64]) -> Verdict:
    """Events of one table and one day. Of several with one id that is not known yet the first by origin is kept."""
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


def _repeated(first: Words) -> Places:
    """Places of all values that occur more than once."""
    order = np.argsort(first, kind="stable")
    ordered = first[order]
    same_as_next = np.empty(len(first), np.bool_)
    same_as_next[-1:] = False
    np.equal(ordered[1:], ordered[:-1], out=same_as_next[:-1])
    same_as_last = np.zeros(len(first), np.bool_)
    same_as_last[1:] = same_as_next[:-1]
    return order[same_as_next | same_as_last]


def _later_ones(
    ids: Ids, places: Places, partition: npt.NDArray[np.int64], offset: npt.NDArray[np.int64]
) -> tuple[list[int], list[int]]:
    """Of events whose ids are among them more than once, all but the first of each; and of these the conflicts."""
    dropped: list[int] = []
    conflicts: list[int] = []
    first_bodies: dict[tuple[int, int], int] = {}
    by_origin = places[np.lexsort((offset[places], partition[places]))]
    here = ids.at(by_origin)
    for place, first, second, body in zip(
        by_origin.tolist(), here.first.tolist(), here.second.tolist(), here.body.tolist(), strict=True
    ):
        kept_body = first_bodies.get((first, second))
        if kept_body is None:
            first_bodies[first, second] = body
            continue
        dropped.append(place)
        if kept_body != body:
            conflicts.append(place)
    return dropped, conflicts
