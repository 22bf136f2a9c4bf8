"""Folders of runs: each its own, the last one kept, none of a run that is going on removed."""

from pathlib import Path

from ottla.pipeline.demo.run_folder import claimed, new_run_folder, remove_earlier


def folders(parent: Path) -> list[str]:
    return sorted(each.name for each in parent.iterdir())


def test_two_runs_of_one_second_have_folders_of_their_own(tmp_path: Path) -> None:
    first, second = new_run_folder(tmp_path / "data"), new_run_folder(tmp_path / "data")
    assert first != second
    assert first.is_dir()
    assert second.is_dir()


def test_all_but_the_last_run_are_removed_with_their_logs(tmp_path: Path) -> None:
    for name in ("run-20250101-000000", "run-20250102-000000", "run-20250103-000000", "run-20250104-000000"):
        (tmp_path / name / "broker").mkdir(parents=True)
    (tmp_path / "run-20250102-000000.log").touch()
    (tmp_path / "run-20250103-000000.log").touch()
    removed = remove_earlier(tmp_path, new=tmp_path / "run-20250104-000000")
    assert sorted(each.name for each in removed) == ["run-20250101-000000", "run-20250102-000000"]
    assert folders(tmp_path) == ["run-20250103-000000", "run-20250103-000000.log", "run-20250104-000000"]


def test_what_has_another_name_is_left_alone(tmp_path: Path) -> None:
    for name in ("run-mine", "data", "run-20250101", "xrun-20250101-000000"):
        (tmp_path / name).mkdir()
    (tmp_path / "run-20250101-000000").mkdir()
    (tmp_path / "run-20250102-000000").mkdir()
    remove_earlier(tmp_path, new=tmp_path / "run-20250103-000000")
    assert folders(tmp_path) == ["data", "run-20250101", "run-20250102-000000", "run-mine", "xrun-20250101-000000"]


def test_a_run_that_is_going_on_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "run-20250102-000000").mkdir()
    with claimed(tmp_path / "run-20250101-000000"):
        assert remove_earlier(tmp_path, new=tmp_path / "run-20250103-000000") == []
    assert remove_earlier(tmp_path, new=tmp_path / "run-20250103-000000") == [tmp_path / "run-20250101-000000"]
