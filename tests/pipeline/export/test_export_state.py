"""An export's rounds and its state: whatever is cut short, no record is missing and none is there twice."""

from pathlib import Path

import pytest

from ottla.pipeline.export.export_files import DayRange
from ottla.pipeline.export.export_state import ExportMismatch, ExportState, Move
from ottla.pipeline.jobs.export import ExportPlan, Range, left_to_read, rounds

SHAPE = {"layout": "day"}


def plan(folder: Path, *, round_records: int = 10) -> ExportPlan:
    starts = {"t": {0: 5, 1: 0}, "u": {0: 0}}
    ends = {"t": {0: 25, 1: 3}, "u": {0: 0}}
    return ExportPlan(folder, starts, ends, days=DayRange(None, None), round_records=round_records)


def written(state: ExportState, name: str) -> Move:
    path = state.work_folder / name
    path.write_text(name)
    return Move(str(path.relative_to(state.folder)), f"t/{name}.parquet")


def commit(state: ExportState, *moves: Move, next_offset: int) -> None:
    state.commit(moves, next_offsets={"t": {0: next_offset}}, rows={"t": 2}, dead={"not_json": 1})


def test_rounds_cover_every_offset_once(tmp_path: Path) -> None:
    ranges = [each for ranges in rounds(plan(tmp_path), {}) for each in ranges]

    assert ranges[:2] == [Range("t", 0, 5, 10), Range("t", 1, 0, 3)]
    covered = [(each.topic, each.partition, offset) for each in ranges for offset in range(each.start, each.end)]
    assert sorted(covered) == [("t", 0, n) for n in range(5, 25)] + [("t", 1, n) for n in range(3)]


def test_rounds_begin_behind_what_is_done(tmp_path: Path) -> None:
    ranges = [each for ranges in rounds(plan(tmp_path), {"t": {0: 22, 1: 3}}) for each in ranges]

    assert ranges == [Range("t", 0, 22, 25)]


def test_a_round_gives_its_files_their_place_and_is_remembered(tmp_path: Path) -> None:
    state = ExportState.open(tmp_path, SHAPE)
    commit(state, written(state, "a"), next_offset=7)

    again = ExportState.open(tmp_path, SHAPE)

    assert (tmp_path / "t" / "a.parquet").read_text() == "a"
    assert again.next_offsets == {"t": {0: 7}}
    assert (again.rows, again.dead) == ({"t": 2}, {"not_json": 1})


def test_what_is_left_is_known_before_it_is_read(tmp_path: Path) -> None:
    whole = plan(tmp_path)
    assert left_to_read(whole) == 23

    state = ExportState.open(tmp_path, whole.shape)
    commit(state, next_offset=20)
    assert left_to_read(whole) == 8


@pytest.mark.parametrize("renamed", [0, 1, 2])
def test_files_that_were_not_renamed_before_a_crash_are_renamed_after_it(
    tmp_path: Path, renamed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    state = ExportState.open(tmp_path, SHAPE)
    moves = [written(state, "a"), written(state, "b")]
    replace, done = os.replace, []

    def fail_after_some(source: Path, target: Path) -> None:
        if str(target).endswith(".parquet"):
            if len(done) == renamed:
                raise KeyboardInterrupt
            done.append(target)
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fail_after_some)
        if renamed < 2:
            with pytest.raises(KeyboardInterrupt):
                commit(state, *moves, next_offset=7)
        else:
            commit(state, *moves, next_offset=7)
    again = ExportState.open(tmp_path, SHAPE)

    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == ["a.parquet", "b.parquet"]
    assert again.next_offsets == {"t": {0: 7}}
    assert again.rows == {"t": 2}


def test_another_shape_is_refused_in_words(tmp_path: Path) -> None:
    ExportState.open(tmp_path, SHAPE)
    with pytest.raises(ExportMismatch, match="layout=day"):
        ExportState.open(tmp_path, {"layout": "offsets"})


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ExportMismatch, match="holds no export"):
        ExportState.open(tmp_path, SHAPE)
