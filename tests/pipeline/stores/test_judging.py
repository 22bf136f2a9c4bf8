"""Ids that are known, new and in conflict: against a plain model, digests that share a half among them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipeline.stores.id_index import IdIndex
from ottla.pipeline.stores.judging import Ids, judge

# Few values, so that first halves meet with other second halves.
ids = st.tuples(st.integers(0, 5), st.integers(0, 2))
bodies = st.integers(0, 2)


def columns(rows: list[tuple[tuple[int, int], int]]) -> Ids:
    return Ids(
        np.array([first for (first, _), _ in rows], np.uint64),
        np.array([second for (_, second), _ in rows], np.uint64),
        np.array([body for _, body in rows], np.uint64),
    )


@settings(deadline=None, max_examples=150)
@given(st.lists(st.lists(st.tuples(ids, bodies), max_size=12), max_size=6))
def test_batches_are_judged_as_by_a_plain_dictionary(batches: list[list[tuple[tuple[int, int], int]]]) -> None:
    known: dict[tuple[int, int], int] = {}
    index = IdIndex()
    for rows in batches:
        kept, conflicts = [], []
        # By origin from the last row to the first: the order in which rows come must not matter.
        for place in reversed(range(len(rows))):
            row_id, body = rows[place]
            if row_id not in known:
                known[row_id] = body
                kept.append(place)
            elif known[row_id] != body:
                conflicts.append(place)
        here = columns(rows)
        offset = np.arange(len(rows), 0, -1)
        verdict = judge(here, index, partition=np.zeros(len(rows), np.int64), offset=offset)
        assert sorted(verdict.kept.tolist()) == sorted(kept)
        assert sorted(verdict.conflicts.tolist()) == sorted(conflicts)
        assert verdict.duplicates == len(rows) - len(kept) - len(conflicts)
        index.add(*here.at(verdict.kept))
    assert len(index) == len(known)


def test_an_index_has_few_runs_however_many_batches_it_took() -> None:
    index = IdIndex()
    maker = np.random.default_rng(1)
    for _ in range(300):
        index.add(*(maker.integers(0, 2**63, 10).astype(np.uint64) for _ in range(3)))
    assert len(index) == 3000
    assert len(index._runs) < 12
