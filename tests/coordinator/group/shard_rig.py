"""A shard on a log that is a list: records are committed at once, or when the test says so."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeVar

from ottla.coordinator.group.groups import Groups
from ottla.coordinator.group.offsets import OffsetSettings
from ottla.coordinator.group.rebalancing import GroupSettings
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.runtime.ports import ON_COMMIT, KeyValue, Outcome, ShardTimer
from ottla.core.errors import ErrorCode
from ottla.core.timing_wheel import TimingWheel
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.offset_commit_codec import CommitResults

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
TOPICS = {"orders": range(3), "payments": range(2)}

ResponseT = TypeVar("ResponseT")


class WheelTimers:
    """The shard's timers, on a wheel whose clock starts at 0."""

    def __init__(self, rig: "ShardRig") -> None:
        self._rig = rig
        self.wheel = TimingWheel()

    def schedule(self, timer: ShardTimer, *, delay_ms: int) -> None:
        timer.bind(self._rig.execute)
        timer.cancel()
        self.wheel.add(timer, delay_ms=delay_ms, now_ms=self._now_ms())

    def time(self) -> float:
        return self._now_ms() / 1000

    def _now_ms(self) -> int:
        return self._rig.now_ms - NOW_MS


class ShardRig:
    """Time, timers and the log are the test's."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS
        self.timers = WheelTimers(self)
        self.log: list[KeyValue] = []
        self.holds_commits = False
        self._held: list[Outcome] = []
        self._ids = count(1)
        self.shard = self.new_shard()

    def new_shard(self) -> GroupShard:
        groups = Groups(
            timers=self.timers,
            settings=lambda: GroupSettings(
                initial_rebalance_delay_ms=0,
                session_timeout_min_ms=6_000,
                session_timeout_max_ms=1_800_000,
                group_max_size=100,
            ),
            clock=lambda: self.now_ms,
            new_uuid=lambda: f"uuid-{next(self._ids)}",
        )
        settings = OffsetSettings(metadata_size_max=100, retention_ms=WEEK_MS)
        return GroupShard(groups, offset_settings=lambda: settings, clock=lambda: self.now_ms)

    # What the runtime does

    def execute(self, outcome: Outcome) -> None:
        self.log += outcome.records
        if self.holds_commits and outcome.records:
            self._held.append(outcome)
        else:
            self._settle(outcome, ErrorCode.NONE)

    def settle_held(self, error_code: ErrorCode = ErrorCode.NONE) -> None:
        """The oldest append that waits is committed, or fails."""
        self._settle(self._held.pop(0), error_code)

    def _settle(self, outcome: Outcome, error_code: ErrorCode) -> None:
        if outcome.replay is ON_COMMIT and error_code == ErrorCode.NONE:
            for key, value in outcome.records:
                self.shard.replay(key, value)
        if outcome.on_done is not None:
            outcome.on_done(error_code)

    def reloaded(self) -> GroupShard:
        """A new shard with what the log says."""
        return loaded_from(self, self.log)

    def advance(self, delay_ms: int) -> None:
        self.now_ms += delay_ms
        self.timers.wheel.advance(round(self.timers.time() * 1000))

    # Requests

    def call(self, ask: Callable[[Callable[[ResponseT], None]], Outcome]) -> ResponseT:
        """The answer of a request that is answered at once."""
        answers: list[ResponseT] = []
        self.execute(ask(answers.append))
        assert len(answers) == 1
        return answers[0]

    def start_commit(self, request: OffsetCommitRequest, *, version: int = 9) -> list[CommitResults]:
        """Where the answer goes."""
        answers: list[CommitResults] = []
        self.execute(
            self.shard.offsets.commit(
                request, version=version, partitions_of=lambda topic: TOPICS.get(topic, ()), answer=answers.append
            )
        )
        return answers

    def commit(self, *partitions: tuple[str, int, int], version: int = 9, **fields: object) -> list[int]:
        """(topic, partition, offset) in; the error codes of a commit that is answered at once."""
        (results,) = self.start_commit(commit_request(*partitions, **fields), version=version)
        return error_codes(results)

    def offset_of(self, group_id: str, topic: str = "orders", partition: int = 0) -> int | None:
        value = self.shard.offsets.of_group(group_id).get(topic, {}).get(partition)
        return None if value is None else value.offset


def error_codes(results: CommitResults) -> list[int]:
    return [error_code for _, partitions in results for _, error_code in partitions]


def loaded_from(rig: ShardRig, records: Sequence[KeyValue]) -> GroupShard:
    shard = rig.new_shard()
    for key, value in records:
        shard.replay(key, value)
    return shard


def commit_request(
    *partitions: tuple[str, int, int], metadata: str | None = "", leader_epoch: int = -1, **fields: object
) -> OffsetCommitRequest:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for topic, index, offset in partitions:
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=offset,
                committed_metadata=metadata,
                committed_leader_epoch=leader_epoch,
            )
        )
    request = OffsetCommitRequest(
        group_id="readers",
        topics=[OffsetCommitRequestTopic(name=name, partitions=wanted) for name, wanted in topics.items()],
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return request
