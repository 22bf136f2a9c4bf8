"""Folders of runs: each its own, the last one kept, none of a run that is going on removed."""

import time
from pathlib import Path

import pytest

from ottla.pipeline.demo.run_folder import claimed, new_run_folder, remove_earlier
from ottla.storage.log_dirs import parse_partition_name


def folders(parent: Path) -> list[str]:
    return sorted(each.name for each in parent.iterdir())


def test_two_runs_of_one_second_have_folders_of_their_own(tmp_path: Path) -> None:
    first, second = new_run_folder(tmp_path / "data"), new_run_folder(tmp_path / "data")
    assert first != second
    assert first.is_dir()
    assert second.is_dir()


def test_a_parent_that_leads_nowhere_is_an_error_and_no_endless_search_for_a_name(tmp_path: Path) -> None:
    link, file = tmp_path / "link", tmp_path / "file"
    link.symlink_to(tmp_path / "nowhere" / "at-all")
    file.write_text("in the way")
    for parent in (link, file):
        with pytest.raises(NotADirectoryError, match=parent.name):
            new_run_folder(parent)


def test_a_name_is_the_time_in_utc_wherever_the_machine_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        before = time.strftime("run-%Y%m%dT%H%M%SZ", time.gmtime())
        name = new_run_folder(tmp_path).name
        assert before <= name <= time.strftime("run-%Y%m%dT%H%M%SZ", time.gmtime())
    finally:
        monkeypatch.undo()
        time.tzset()


def test_no_name_is_that_of_a_partition(tmp_path: Path) -> None:
    for _ in range(3):
        assert parse_partition_name(new_run_folder(tmp_path).name) is None


def test_all_but_the_last_run_are_removed_with_their_logs(tmp_path: Path) -> None:
    for name in ("run-20250101T000000Z", "run-20250102T000000Z", "run-20250103T000000Z", "run-20250104T000000Z"):
        (tmp_path / name / "broker").mkdir(parents=True)
    (tmp_path / "run-20250102T000000Z.log").touch()
    (tmp_path / "run-20250103T000000Z.log").touch()
    removed = remove_earlier(tmp_path, new=tmp_path / "run-20250104T000000Z")
    assert sorted(each.name for each in removed) == ["run-20250101T000000Z", "run-20250102T000000Z"]
    assert folders(tmp_path) == ["run-20250103T000000Z", "run-20250103T000000Z.log", "run-20250104T000000Z"]


def test_runs_of_one_second_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("run-20250101T000000Z", "run-20250101T000000Z.9", "run-20250101T000000Z.10"):
        (tmp_path / name).mkdir()
    remove_earlier(tmp_path, new=tmp_path / "run-20250102T000000Z")
    assert folders(tmp_path) == ["run-20250101T000000Z.10"]


def test_runs_with_names_as_they_were_are_older_than_any_other(tmp_path: Path) -> None:
    for name in ("run-20250104-000000", "run-20250104-000000-2", "run-20250103T180000Z"):
        (tmp_path / name).mkdir()
    (tmp_path / "run-20250104-000000.log").touch()
    remove_earlier(tmp_path, new=tmp_path / "run-20250105T000000Z")
    assert folders(tmp_path) == ["run-20250103T180000Z"]


def test_what_has_another_name_is_left_alone(tmp_path: Path) -> None:
    for name in ("run-mine", "data", "run-20250101", "xrun-20250101T000000Z"):
        (tmp_path / name).mkdir()
    (tmp_path / "run-20250101T000000Z").mkdir()
    (tmp_path / "run-20250102T000000Z").mkdir()
    remove_earlier(tmp_path, new=tmp_path / "run-20250103T000000Z")
    assert folders(tmp_path) == ["data", "run-20250101", "run-20250102T000000Z", "run-mine", "xrun-20250101T000000Z"]


def test_a_run_that_is_going_on_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "run-20250102T000000Z").mkdir()
    with claimed(tmp_path / "run-20250101T000000Z"):
        assert remove_earlier(tmp_path, new=tmp_path / "run-20250103T000000Z") == []
    assert remove_earlier(tmp_path, new=tmp_path / "run-20250103T000000Z") == [tmp_path / "run-20250101T000000Z"]
