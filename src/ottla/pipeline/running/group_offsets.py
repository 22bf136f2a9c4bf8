"""Finished batches as committed offsets of a group, so that any lag tool shows how far a job is.

For show only: where a job goes on is in its checkpoint. So a commit that fails is told and no more; the next one makes
it good.
"""

from collections.abc import Callable, Mapping

from ottla.clients.admin import Admin
from ottla.clients.errors import ClientError
from ottla.core.types import TopicPartition
from ottla.pipeline.jobs.port import Place


class GroupOffsets:
    """Of one job. `admin` belongs to the runner."""

    def __init__(self, admin: Admin, group: str, *, warn: Callable[[str], None]) -> None:
        self._admin = admin
        self._group = group
        self._warn = warn
        self._committed: dict[Place, int] = {}

    def commit(self, ends: Mapping[Place, int]) -> bool:
        """Whether the cluster has them."""
        changed = {place: offset for place, offset in ends.items() if self._committed.get(place) != offset}
        if not changed:
            return True
        try:
            self._admin.alter_group_offsets(
                self._group, {TopicPartition(*place): offset for place, offset in changed.items()}
            )
        except ClientError as error:
            self._warn(f"offsets of group {self._group} could not be committed, lag tools show old ones: {error}")
            return False
        self._committed |= changed
        return True
