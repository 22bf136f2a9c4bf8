"""What a checkpoint belongs to, where its batches lie, and who has it. No Spark."""

import json
from pathlib import Path

import pytest

from ottla.pipeline.running.checkpoints import About, Checkpoint, CheckpointRefused
from ottla.pipeline.stores.port import Batch

ABOUT = About("collect", "cluster-1", "ottla", "embedded", ("a", "b"), {"a": "id-a"})


def test_a_new_checkpoint_remembers_what_it_belongs_to(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "collect")
    with checkpoint.claimed():
        assert checkpoint.check(ABOUT) == ()
    with Checkpoint(tmp_path, "collect").claimed():
        assert Checkpoint(tmp_path, "collect").check(ABOUT) == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cluster_id": "cluster-2"}, "belongs to the cluster cluster-1, and --bootstrap leads to cluster-2"),
        ({"connector": "kafka"}, "was made with --connector ottla, not with kafka"),
        ({"store": "other"}, "belongs to the store embedded, and events would be missing from other"),
        ({"topics": ("a", "c")}, "belongs to the topics a, b, and the job reads a, c"),
    ],
)
def test_one_that_belongs_elsewhere_is_refused(tmp_path: Path, change: dict[str, str], words: str) -> None:
    checkpoint = Checkpoint(tmp_path, "collect")
    with checkpoint.claimed():
        checkpoint.check(ABOUT)
        with pytest.raises(CheckpointRefused) as caught:
            checkpoint.check(ABOUT._replace(**change))  # type: ignore[arg-type]
    assert words in str(caught.value)
    assert "give another --checkpoint" in str(caught.value)


def test_another_version_a_damaged_file_and_a_strangers_folder_are_refused(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "collect")
    with checkpoint.claimed():
        checkpoint.check(ABOUT)
        about = checkpoint.folder / "ottla.json"
        document = json.loads(about.read_text())
        about.write_text(json.dumps({**document, "version": 99}))
        with pytest.raises(CheckpointRefused, match="has version 99"):
            checkpoint.check(ABOUT)
        about.write_text("{")
        with pytest.raises(CheckpointRefused, match="is damaged"):
            checkpoint.check(ABOUT)
        about.unlink()
        checkpoint.spark_folder.mkdir()
        with pytest.raises(CheckpointRefused, match=r"no ottla\.json"):
            checkpoint.check(ABOUT)


def test_what_a_killed_driver_was_writing_is_removed_and_what_it_wrote_stays(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "collect")
    with checkpoint.claimed():
        checkpoint.check(ABOUT)
        offsets = checkpoint.spark_folder / "offsets"
        offsets.mkdir(parents=True)
        (offsets / "0").write_text("v1")
        (offsets / ".1.6c1a0e0b-5b0c-4d2e-9d6e-0c0c0c0c0c0c.tmp").write_text("v")
        checkpoint.check(ABOUT)
    assert [path.name for path in offsets.iterdir()] == ["0"]


def test_a_topic_that_comes_later_is_no_topic_made_anew(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "collect")
    with checkpoint.claimed():
        checkpoint.check(ABOUT)
        assert checkpoint.check(ABOUT._replace(topic_ids={"a": "id-a", "b": "id-b"})) == ()
        # One that is missing for a while is remembered.
        assert checkpoint.check(ABOUT._replace(topic_ids={})) == ()
        assert checkpoint.check(ABOUT._replace(topic_ids={"a": "id-a", "b": "id-b2"})) == ("b",)


def test_after_a_topic_was_made_anew_a_new_generation_begins_where_it_is_told(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "collect")
    changed = ABOUT._replace(topic_ids={"a": "id-a2"})
    with checkpoint.claimed():
        checkpoint.check(ABOUT)
        assert checkpoint.starting_offsets == "earliest"
        before = checkpoint.spark_folder
        before.mkdir()
        assert checkpoint.check(changed) == ("a",)
        checkpoint.begin_anew(changed, {("b", 1): 7, ("a", 0): -2, ("b", 0): 5})
    again = Checkpoint(tmp_path, "collect")
    with again.claimed():
        assert again.check(changed) == ()
        assert json.loads(again.starting_offsets) == {"a": {"0": -2}, "b": {"0": 5, "1": 7}}
        assert again.spark_folder != before
        assert not before.exists()


def test_only_one_has_it_at_a_time(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "collect")
    with checkpoint.claimed():
        with pytest.raises(CheckpointRefused, match="is in use by process"), Checkpoint(tmp_path, "collect").claimed():
            pass
        with Checkpoint(tmp_path, "other").claimed():
            pass
    with Checkpoint(tmp_path, "collect").claimed():
        pass


def test_batches_and_their_ends_are_read_from_sparks_files(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "collect")
    assert checkpoint.last_finished_ends() == {}
    spark = checkpoint.spark_folder
    (spark / "offsets").mkdir(parents=True)
    (spark / "commits").mkdir()
    (spark / "metadata").write_text('{"id":"0b1c"}')
    for number, end in ((0, 5), (1, 9)):
        (spark / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"a":{{"0":{end},"1":0}}}}')
    (spark / "commits" / "0").write_text("v1\n{}")
    (spark / "commits" / ".1.crc").write_text("")
    assert checkpoint.batch(1) == Batch("collect", "0b1c", 1)
    assert checkpoint.ends(1) == {("a", 0): 9, ("a", 1): 0}
    assert checkpoint.ends(2) == {}
    assert checkpoint.last_finished_ends() == {("a", 0): 5, ("a", 1): 0}
