"""What redrive remembers: the same letters whatever the order in which they were sent."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipeline.dead_letters.redrive_progress import Progress, TooManyRanges


def test_letters_from_the_beginning_move_the_offset() -> None:
    progress = Progress()
    progress.add(0, 5)
    progress.add(5, 7)

    assert (progress.next_offset, progress.metadata) == (7, "")


def test_letters_further_on_are_remembered_until_the_gap_closes() -> None:
    progress = Progress()
    progress.add(3, 5)
    assert (progress.next_offset, progress.metadata) == (0, "3-5")

    progress.add(0, 3)
    assert (progress.next_offset, progress.metadata) == (5, "")


def test_metadata_of_someone_else_is_taken_for_none() -> None:
    assert Progress.parse(4, "hello").ranges == []
    assert Progress.parse(-1, "").next_offset == 0


def test_more_ranges_than_a_commit_holds_are_refused_in_words() -> None:
    progress = Progress()
    for offset in range(0, 4_000, 2):
        progress.add(offset + 1, offset + 2)
    with pytest.raises(TooManyRanges, match="older dead letters"):
        _ = progress.metadata


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6)), max_size=12))
def test_what_was_added_is_done_and_nothing_else(pieces: list[tuple[int, int]]) -> None:
    progress = Progress()
    done: set[int] = set()
    for first, length in pieces:
        progress.add(first, first + length)
        done.update(range(first, first + length))
        progress = Progress.parse(progress.next_offset, progress.metadata)

    assert {offset for offset in range(60) if progress.is_done(offset)} == done
