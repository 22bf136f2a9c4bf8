"""A job's checkpoint: Spark's folder with the offsets of its batches, and a file that says what it belongs to.

A checkpoint that belongs to another cluster, store or version is refused in words: going on from its offsets would skip
events in silence. For a topic that was made anew, a new generation begins: other topics go on from where they were.
One process at a time has it. Local folders only.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.pipeline.fsynced import write_whole
from ottla.pipeline.jobs.port import Place
from ottla.pipeline.stores.port import Batch

VERSION: Final = 1
_ABOUT_FILE: Final = "ottla.json"
_SPARK_FOLDER: Final = "spark"
_LOCK_FILE: Final = ".lock"
_AGAIN: Final = (
    "To read the topics from their beginning, give another --checkpoint: rows are kept by event id, none comes twice"
)


class CheckpointRefused(Exception):
    """This checkpoint can't be gone on from; the message says what it belongs to, and what to do."""


class About(NamedTuple):
    """What a checkpoint belongs to. Topic ids are of the topics that were there, where the cluster has ids."""

    job: str
    cluster_id: str
    connector: str
    store: str
    topics: tuple[str, ...]
    topic_ids: Mapping[str, str]


class Checkpoint:
    """Of one job, in `folder/<job>`. `claim` first; the others only while it is held."""

    def __init__(self, folder: Path, job: str) -> None:
        self.job = job
        self.folder = folder / job
        # Where the first batch of this generation begins, as the option of Spark's source.
        self.starting_offsets = "earliest"
        self._generation = 0

    @property
    def spark_folder(self) -> Path:
        """Of this generation: Spark's own, not to be touched while a query runs."""
        return self.folder / (_SPARK_FOLDER if self._generation == 0 else f"{_SPARK_FOLDER}-{self._generation}")

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Ours until the end of the block, or of the process however it ends."""
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
        """Open it. The topics that were made anew since: `begin_anew` must follow. CheckpointRefused if not ours."""
        try:
            written = json.loads((self.folder / _ABOUT_FILE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            if self.spark_folder.exists():
                raise CheckpointRefused(
                    f"{self.spark_folder} is there, and no {_ABOUT_FILE} that says what it belongs to. {_AGAIN}"
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
        """Files that a killed driver was writing: Spark never looks at them, but takes the first batch's for a sign
        that the folder is another query's, and refuses to start.
        """
        for folder in (self.spark_folder / "offsets", self.spark_folder / "commits"):
            for path in folder.glob(".*.tmp"):
                path.unlink(missing_ok=True)

    def begin_anew(self, about: About, offsets: Mapping[Place, int]) -> None:
        """A new generation that begins at these offsets."""
        before = self.spark_folder
        by_topic: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(offsets.items()):
            by_topic.setdefault(topic, {})[str(partition)] = offset
        self.starting_offsets = json.dumps(by_topic) if by_topic else "earliest"
        self._generation += 1
        self._write(about)
        # Not needed once the file says so; a crash before that leaves it, and nothing reads it.
        shutil.rmtree(before, ignore_errors=True)

    def batch(self, number: int) -> Batch:
        """The batch of this number, as stores know it."""
        metadata = json.loads((self.spark_folder / "metadata").read_text(encoding="utf-8"))
        return Batch(self.job, str(metadata["id"]), number)

    def ends(self, number: int) -> dict[Place, int]:
        """Where a batch ends on the topics: Spark writes it down before the batch is begun. Empty if it has not."""
        try:
            lines = (self.spark_folder / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return {}
        # The version of the file, the query's settings, then a line for each source: there is one.
        return {
            (topic, int(partition)): offset
            for topic, partitions in json.loads(lines[2]).items()
            for partition, offset in partitions.items()
        }

    def last_finished(self) -> Batch | None:
        """The last batch that was finished, if any was."""
        number = self._last_number("commits")
        return None if number is None else self.batch(number)

    def last_finished_ends(self) -> dict[Place, int]:
        """Where the last batch that was finished ends; empty if none was."""
        return self._last_ends("commits")

    def topics_read(self) -> set[str]:
        """Of the last batch that was begun: if it is run again, it needs them all."""
        return {topic for topic, _ in self._last_ends("offsets")}

    def _last_ends(self, folder: str) -> dict[Place, int]:
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
        return [f"is of version {version}, and this Ottla's are of version {VERSION}"]
    problems = []
    for name, words in (
        ("job", "is of the job {}, not of {}"),
        ("cluster_id", "is of the cluster {}, and --bootstrap leads to {}"),
        ("connector", "was made with --connector {}, not with {}"),
        ("store", "is of the store {}, and events would be missing from {}"),
    ):
        was, is_ = written.get(name), getattr(about, name)
        if was != is_:
            problems.append(words.format(was, is_))
    was_topics, are_topics = sorted(written.get("topics", ())), sorted(about.topics)
    if was_topics != are_topics:
        problems.append(f"is of the topics {', '.join(was_topics)}, and the job reads {', '.join(are_topics)}")
    return problems
