"""Commits the ends of finished batches as offsets of a group, so that any lag tool shows a job's progress.

They are only for display: a job continues from its checkpoint. So a failed commit causes a warning and nothing else;
the next one catches up.
"""

from collections.abc import Callable, Mapping

from ottla.clients.admin import Admin
from ottla.clients.errors import ClientError
from ottla.core.types import TopicPartition


class GroupOffsets:
    """Of one job. The runner owns `admin`."""

    def __init__(self, admin: Admin, group: str, *, warn: Callable[[str], None]) -> None:
        self._admin = admin
        self._group = group
        self._warn = warn
        self._committed: dict[TopicPartition, int] = {}

    def commit(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether the cluster has them."""
        changed = {
            topic_partition: offset
            for topic_partition, offset in ends.items()
            if self._committed.get(topic_partition) != offset
        }
        if not changed:
            return True
        try:
            self._admin.alter_group_offsets(self._group, changed)
        except ClientError as error:
            self._warn(f"offsets of group {self._group} could not be committed, lag tools show old ones: {error}")
            return False
        self._committed |= changed
        return True
