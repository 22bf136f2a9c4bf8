"""Folders of one partition in several log directories: which of them is out of date, by the topic ids inside.

It happens when a topic is deleted and created again while the directory that holds it is offline. Moves nothing.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ottla.core.disk import Disk
from ottla.core.types import TopicPartition
from ottla.storage.log_dirs import LogDirContents
from ottla.storage.partition_metadata import read_topic_id_or_none, topic_id_text
from ottla.storage.segment_files import is_partition_folder


class DuplicateLog(Exception):
    """Two folders claim to be the same partition; the operator has to decide which one is right."""


class Claim(NamedTuple):
    """A folder with the name and the files of a partition; no topic id when its file is missing or malformed."""

    topic_partition: TopicPartition
    path: str
    topic_id: bytes | None


def duplicated_partitions(contents: Iterable[LogDirContents]) -> set[TopicPartition]:
    seen: set[TopicPartition] = set()
    duplicated: set[TopicPartition] = set()
    for directory_contents in contents:
        for topic_partition, _ in directory_contents.partitions:
            (duplicated if topic_partition in seen else seen).add(topic_partition)
    return duplicated


def read_claims(disk: Disk, contents: LogDirContents, wanted: Collection[TopicPartition]) -> list[Claim]:
    """The claims of these partitions' folders in one directory. OSError: the disk fails."""
    return [
        Claim(topic_partition, path, read_topic_id_or_none(disk, path))
        for topic_partition, path in contents.partitions
        if topic_partition in wanted and is_partition_folder(disk.list(path))
    ]


def stale_claims(claims: Iterable[Claim], topic_ids: Mapping[str, bytes] | None) -> list[Claim]:
    """The claims that are not those of the topics there are now; DuplicateLog when the ids don't decide it.

    `topic_ids` are those of all topics by name; None when they are unknown.
    """
    by_partition: dict[TopicPartition, list[Claim]] = {}
    for claim in claims:
        by_partition.setdefault(claim.topic_partition, []).append(claim)
    stale: list[Claim] = []
    for topic_partition, rivals in by_partition.items():
        if topic_ids is None:
            possible = rivals
        elif topic_partition.topic in topic_ids:
            # A folder that lost its id may be the right one all the same.
            possible = [claim for claim in rivals if claim.topic_id in (None, topic_ids[topic_partition.topic])]
        else:
            possible = []
        if len(possible) > 1:
            raise DuplicateLog(_describe(topic_partition, possible))
        stale += [claim for claim in rivals if claim not in possible]
    return stale


def _describe(topic_partition: TopicPartition, claims: list[Claim]) -> str:
    folders = " and in ".join(
        f"{claim.path} ({'no topic id' if claim.topic_id is None else f'topic id {topic_id_text(claim.topic_id)}'})"
        for claim in claims
    )
    return f"{topic_partition} is in {folders}; move the folder that is out of date away"
