"""One partition of the coordinator's topic: its groups and their committed offsets, and what needs both at once.

Owns no clock, no file and no socket; requests on one of the two go straight to `groups` or `offsets`.
"""

from collections.abc import Callable, Collection, Iterator

from ottla.coordinator.group.expiry import expired_records
from ottla.coordinator.group.groups import Groups
from ottla.coordinator.group.offsets import Offsets, OffsetSettings
from ottla.coordinator.group.schemas import (
    GroupKey,
    OffsetKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from ottla.coordinator.runtime.ports import NOTHING, KeyValue, Outcome
from ottla.core.clock import Clock
from ottla.core.errors import ErrorCode
from ottla.core.types import TimestampMs


class GroupShard:
    """Made empty, filled by `replay`, then served; the runtime owns it until its partition goes away."""

    __slots__ = ("_settings", "groups", "offsets")

    def __init__(self, groups: Groups, *, offset_settings: Callable[[], OffsetSettings], clock: Clock) -> None:
        self._settings = offset_settings
        self.groups = groups
        self.offsets = Offsets(groups, settings=offset_settings, clock=clock)

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Bring the state in line with a record of the log; raises DamagedRecord."""
        decoded = decode_key(key)
        if isinstance(decoded, OffsetKey):
            self.offsets.replay(decoded, None if value is None else decode_offset_value(value))
        elif isinstance(decoded, GroupKey):
            self.groups.replay(decoded, None if value is None else decode_group_value(value))
            if value is None and self.offsets.has_any(decoded.group_id):
                # Committed while the group was being deleted: what is there without a group could never be deleted.
                self.groups.ensure_simple_group(decoded.group_id)

    def live_records(self) -> Iterator[KeyValue]:
        """All that is needed to build this shard anew; each value is taken when it is asked for."""
        yield from self.groups.live_records()
        yield from self.offsets.live_records()

    def on_loaded(self) -> None:
        """The last record was replayed and requests may come: timers start."""
        self.groups.on_loaded()

    def unload(self, error_code: ErrorCode) -> None:
        """The partition is no longer served here: requests that wait are answered with the error."""
        self.groups.unload(error_code)

    def expire(self, now_ms: TimestampMs) -> Outcome:
        """Offsets that nobody needs any more and groups that have nothing left, in a batch of bounded size."""
        records = expired_records(self.groups, self.offsets, now_ms=now_ms, retention_ms=self._settings().retention_ms)
        return Outcome(records) if records else NOTHING

    def on_topics_deleted(self, topics: Collection[str]) -> Outcome:
        """A topic of the same name, made later, must not start where this one ended."""
        records = self.offsets.tombstones_of_topics(topics)
        return Outcome(records) if records else NOTHING

    def delete_group(self, group_id: str, answer: Callable[[ErrorCode], None]) -> Outcome:
        """The group and its offsets go in one batch, or stay."""
        error_code = self.groups.check_deletable(group_id)
        if error_code != ErrorCode.NONE:
            answer(error_code)
            return NOTHING
        return Outcome([*self.offsets.tombstones_of_group(group_id), *self.groups.remove(group_id)], answer)
