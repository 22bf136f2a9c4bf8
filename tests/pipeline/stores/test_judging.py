"""Ids that are known, new and in conflict: against a plain model, digests that share a half among them."""

import tempfile
from pathlib import Path
from unittest.mock import patch

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
    check_against_a_dictionary(batches)
    with patch("ottla.pipeline.stores.id_index._MAPPED_IDS", 1):
        check_against_a_dictionary(batches)


def check_against_a_dictionary(batches: list[list[tuple[tuple[int, int], int]]]) -> None:
    known: dict[tuple[int, int], int] = {}
    index = IdIndex(Path(tempfile.gettempdir()))
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


def test_an_index_has_few_runs_however_many_batches_it_took(tmp_path: Path) -> None:
    index = IdIndex(tmp_path)
    maker = np.random.default_rng(1)
    for _ in range(300):
        index.add(*(maker.integers(0, 2**63, 10).astype(np.uint64) for _ in range(3)))
    assert len(index) == 3000
    assert len(index._runs) < 12


def test_many_ids_lie_in_files_that_nobody_sees_and_that_are_never_written_to_again(tmp_path: Path) -> None:
    index = filled(tmp_path)
    assert isinstance(index._runs[0].first.base, np.ndarray)
    assert not index._runs[0].first.flags.writeable
    assert list(tmp_path.iterdir()) == []


def test_many_ids_lie_in_memory_where_files_can_not_be_written(tmp_path: Path) -> None:
    index = filled(tmp_path / "not there")
    assert index._runs[0].first.flags.writeable


def filled(folder: Path) -> IdIndex:
    """With all even numbers up to 400,000, in batches; each half of an id is the same, its body is its half."""
    index = IdIndex(folder)
    numbers = np.random.default_rng(3).permutation(np.arange(0, 400_000, 2)).astype(np.uint64)
    for batch in np.array_split(numbers, 7):
        index.add(batch, batch, batch // np.uint64(2))
    found, bodies = index.find(*[np.arange(400_000, dtype=np.uint64)] * 2)
    assert found.tolist() == [True, False] * 200_000
    assert bodies[::2].tolist() == list(range(200_000))
    return index
