"""A job's checkpoint: Spark's folder with the offsets of its batches, and a file that says what it belongs to.

A checkpoint of another cluster, store or version is refused with a reason: its offsets would skip events in silence. If
a topic was deleted and created again, a new generation of the checkpoint begins, in which the other topics continue
where they were. One process at a time holds it. Local folders only.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.core.types import TopicPartition
from ottla.pipeline.fsynced import write_whole
from ottla.pipeline.stores.port import Batch

VERSION: Final = 1
_ABOUT_FILE: Final = "ottla.json"
_SPARK_FOLDER: Final = "spark"
_LOCK_FILE: Final = ".lock"
_AGAIN: Final = "To read the topics from their beginning, give another --checkpoint: the store keeps each event id once"


class CheckpointRefused(Exception):
    """A job can't continue from this checkpoint; the message says what it belongs to, and what to do."""


class About(NamedTuple):
    """What a checkpoint belongs to. `topic_ids` has the topics that existed, if the cluster has topic ids."""

    job: str
    cluster_id: str
    connector: str
    store: str
    topics: tuple[str, ...]
    topic_ids: Mapping[str, str]


class Checkpoint:
    """Of one job, in `folder/<job>`. All methods but `claimed` need the claim."""

    def __init__(self, folder: Path, job: str) -> None:
        self.job = job
        self.folder = folder / job
        # Where the first batch of this generation begins, as the option of Spark's source.
        self.starting_offsets = "earliest"
        self._generation = 0

    @property
    def spark_folder(self) -> Path:
        """Spark's own folder of this generation; nobody else may touch it while a query runs."""
        return self.folder / (_SPARK_FOLDER if self._generation == 0 else f"{_SPARK_FOLDER}-{self._generation}")

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """This process holds the checkpoint until the end of the block, or until the process ends in any way."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / _LOCK_FILE, "a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                raise CheckpointRefused(
                    f"checkpoint {self.folder} is in use by process {file.read().strip() or 'unknown'}; "
                    "stop that run first, or give another --checkpoint"
                ) from error
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    def check(self, about: About) -> tuple[str, ...]:
        """Open it. Returns topics that were deleted and created again since: then `begin_anew` must follow.

        CheckpointRefused if it belongs to something else.
        """
        try:
            written = json.loads((self.folder / _ABOUT_FILE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            if self.spark_folder.exists():
                raise CheckpointRefused(
                    f"{self.spark_folder} exists, but no {_ABOUT_FILE} that says what it belongs to. {_AGAIN}"
                ) from None
            self._write(about)
            return ()
        except ValueError as error:
            raise CheckpointRefused(f"{self.folder / _ABOUT_FILE} is damaged: {error}. {_AGAIN}") from error
        problems = _differences(written, about)
        if problems:
            raise CheckpointRefused(f"checkpoint {self.folder} {'; '.join(problems)}. {_AGAIN}")
        self._generation = written["generation"]
        self._remove_unfinished()
        self.starting_offsets = written["starting_offsets"]
        known = written["topic_ids"]
        made_anew = tuple(sorted(topic for topic, id_ in about.topic_ids.items() if known.get(topic, id_) != id_))
        if not made_anew and about.topic_ids.keys() - known.keys():
            self._write(about._replace(topic_ids={**known, **about.topic_ids}))
        return made_anew

    def _remove_unfinished(self) -> None:
        """Remove files that a killed driver was writing. Spark never reads them, but if there is one of the first batch
        it takes the folder for another query's and refuses to start.
        """
        for folder in (self.spark_folder / "offsets", self.spark_folder / "commits"):
            for path in folder.glob(".*.tmp"):
                path.unlink(missing_ok=True)

    def begin_anew(self, about: About, offsets: Mapping[TopicPartition, int]) -> None:
        """A new generation that begins at these offsets."""
        before = self.spark_folder
        by_topic: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(offsets.items()):
            by_topic.setdefault(topic, {})[str(partition)] = offset
        self.starting_offsets = json.dumps(by_topic) if by_topic else "earliest"
        self._generation += 1
        self._write(about)
        # The file has just made it obsolete; after a crash in between it stays, and nothing reads it.
        shutil.rmtree(before, ignore_errors=True)

    def batch(self, number: int) -> Batch:
        """The batch of this number, as stores identify it."""
        metadata = json.loads((self.spark_folder / "metadata").read_text(encoding="utf-8"))
        return Batch(self.job, str(metadata["id"]), number)

    def ends(self, number: int) -> dict[TopicPartition, int]:
        """Where a batch ends on the topics: Spark writes that before it starts the batch. Empty if it has not."""
        try:
            lines = (self.spark_folder / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return {}
        # The version of the file, the query's settings, then a line for each source: there is one.
        return {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in json.loads(lines[2]).items()
            for partition, offset in partitions.items()
        }

    def last_finished(self) -> Batch | None:
        """The last finished batch, if there is one."""
        number = self._last_number("commits")
        return None if number is None else self.batch(number)

    def last_finished_ends(self) -> dict[TopicPartition, int]:
        """Where the last finished batch ends; empty without one."""
        return self._last_ends("commits")

    def topics_read(self) -> set[str]:
        """The topics of the last batch that began: if it runs again, it needs them all."""
        return {topic for topic, _ in self._last_ends("offsets")}

    def _last_ends(self, folder: str) -> dict[TopicPartition, int]:
        number = self._last_number(folder)
        return {} if number is None else self.ends(number)

    def _last_number(self, folder: str) -> int | None:
        try:
            names = os.listdir(self.spark_folder / folder)
        except FileNotFoundError:
            return None
        return max((int(name) for name in names if name.isdecimal()), default=None)

    def _write(self, about: About) -> None:
        document = {
            "version": VERSION,
            "generation": self._generation,
            "starting_offsets": self.starting_offsets,
            **about._asdict(),
        }
        write_whole(self.folder / _ABOUT_FILE, (json.dumps(document, indent=1, sort_keys=True) + "\n").encode())


def _differences(written: Mapping[str, Any], about: About) -> list[str]:
    version = written.get("version")
    if version != VERSION:
        return [f"has version {version}, and this Ottla writes version {VERSION}"]
    problems = []
    for name, words in (
        ("job", "belongs to the job {}, not to {}"),
        ("cluster_id", "belongs to the cluster {}, and --bootstrap leads to {}"),
        ("connector", "was made with --connector {}, not with {}"),
        ("store", "belongs to the store {}, and events would be missing from {}"),
    ):
        was, is_ = written.get(name), getattr(about, name)
        if was != is_:
            problems.append(words.format(was, is_))
    was_topics, are_topics = sorted(written.get("topics", ())), sorted(about.topics)
    if was_topics != are_topics:
        problems.append(f"belongs to the topics {', '.join(was_topics)}, and the job reads {', '.join(are_topics)}")
    return problems
