"""One partition as its follower fetches it: what is wanted next, and what an answer of the leader comes to.

Truncation needs no request of its own (KIP-595): the fetch names the epoch of the last batch here, and a leader whose
log went another way answers with the epoch and offset at which the two logs were last the same, as far as it knows.
Decides about this partition alone; when to fetch is the fetcher's business.
"""

import logging
from enum import Enum
from typing import Final, TypeAlias

from ottla.core.errors import ErrorCode, StorageError
from ottla.core.types import LeaderEpoch, Offset, TimestampMs
from ottla.protocol.fetch_codec import EpochEndOffset, FetchedPartition, FetchPartition, TopicKey
from ottla.records.header import read_header
from ottla.replication.partition import Partition

_LOG = logging.getLogger("ottla.replication")

# By its topic's id: a topic that is created again under its name is another one.
PartitionKey: TypeAlias = tuple[TopicKey, int]

# What an answer damaged on its way looks like, too, or one that its leader had to cut short. A third time it is the
# leader's log that is rotten.
CORRUPT_ANSWERS_MAX: Final = 3

_NONE: Final = ErrorCode.NONE
_CORRUPT: Final = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
_new: Final = tuple.__new__


class Verdict(Enum):
    """What becomes of a partition after an answer."""

    FETCH = "go on"
    FETCH_ANEW = "go on; the leader has to repeat what it said beside the records"
    SETTLE = "go on when the checkpoints on disk allow what is truncated, or say what was"
    BACK_OFF = "try again later"
    STOP = "not before the controller says more"


class FollowedPartition:
    """Owned by the fetcher of its leader, in one leader epoch; another epoch has another object."""

    __slots__ = (
        "corrupt_answers",
        "failures",
        "first_request",
        "is_stopped",
        "key",
        "lag",
        "leader_epoch",
        "max_bytes",
        "offset_request",
        "partition",
        "reason",
        "retry_at_ms",
        "sent",
        "settle_offset",
        "wanted",
    )

    def __init__(self, partition: Partition, *, leader_epoch: LeaderEpoch, max_bytes: int) -> None:
        self.partition = partition
        self.key: PartitionKey = (partition.topic_id, partition.topic_partition.partition)
        self.leader_epoch = leader_epoch
        self.max_bytes = max_bytes
        self.sent: FetchPartition | None = None  # what the leader knows that we want
        self.first_request = 0  # the number of the request that first named it
        self.offset_request = 0  # the number of the request that first named the fetch offset in `sent`
        self.failures = 0  # in a row
        self.corrupt_answers = 0  # in a row
        self.retry_at_ms = 0
        self.is_stopped = False
        self.settle_offset: Offset = 0  # up to which the recovery point on disk may stay
        self.reason = ""  # of the last failure
        self.lag = 0  # messages behind the leader's high watermark
        self.refresh()

    def refresh(self) -> bool:
        """Work out what is wanted; whether the leader has to hear of it."""
        partition = self.partition
        log = partition.log
        end_offset = log.log_end_offset
        durable_offset = partition.durable_end_offset
        self.wanted: FetchPartition = _new(
            FetchPartition,
            (
                partition.topic_partition.partition,
                self.leader_epoch,
                end_offset,
                log.last_epoch,
                log.log_start_offset,
                self.max_bytes,
                durable_offset if durable_offset < end_offset else -1,
            ),
        )
        return self.wanted != self.sent

    def name_in(self, number: int) -> FetchPartition:
        """What request `number` says of it: from now on the leader knows what is wanted."""
        sent, wanted = self.sent, self.wanted
        if sent is None:
            self.first_request = number
        if sent is None or sent.fetch_offset != wanted.fetch_offset:
            self.offset_request = number
        self.sent = wanted
        return wanted

    @property
    def is_lagging(self) -> bool:
        """Whether less is durable here than was fetched: the leader waits to hear that it is."""
        return self.wanted.durable_offset >= 0

    def take(self, fetched: FetchedPartition, *, number: int, now_ms: TimestampMs) -> Verdict:
        """Append, truncate or start afresh, as the answer to request `number` says."""
        partition = self.partition
        log = partition.log
        end_offset = log.log_end_offset
        if partition.state.leader_epoch != self.leader_epoch or partition.is_offline:
            return self._stop("not followed in this leader epoch any more")
        if self.sent is None or self.sent.fetch_offset != end_offset or number < self.offset_request:
            return self._take_overtaken(fetched)
        try:
            if fetched.error_code:
                return self._take_error(fetched)
            if fetched.diverging_epoch is not None:
                common_end = self._common_end(fetched.diverging_epoch)
                if common_end <= fetched.log_start_offset:
                    # All of it lies before the leader's log, where nothing says whether it is the same.
                    return self._start_afresh(fetched.log_start_offset)
                return self._truncate(common_end)
        except StorageError as error:
            return self._stop(str(error))
        records = fetched.records
        if records:
            assert type(records) is memoryview
            info = partition.append_as_follower(records, leader_epoch=self.leader_epoch, now_ms=now_ms)
            if info.error_code:
                # Nothing that is here is in the leader's log: all of it lies before, or there is nothing.
                has_nothing = end_offset <= max(fetched.log_start_offset, log.log_start_offset)
                if info.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and has_nothing:
                    return self._begin_within_a_batch(fetched, records, now_ms)
                return self._take_refusal(info.error_code, info.error_message)
            end_offset = log.log_end_offset
        self.failures = self.corrupt_answers = 0
        high_watermark = fetched.high_watermark
        self.lag = high_watermark - end_offset if high_watermark > end_offset else 0
        partition.follow(high_watermark=high_watermark, log_start_offset=fetched.log_start_offset)
        return Verdict.FETCH

    def _take_overtaken(self, fetched: FetchedPartition) -> Verdict:
        """Two requests were under way, and the records that the answer to the first one brought are here. This is the
        answer to the second: the leader knew of an older fetch offset, and perhaps sends the same records again.

        The high watermark counts: it was news, and the leader does not say it twice.
        """
        if not fetched.error_code and fetched.diverging_epoch is None:
            self.partition.follow(high_watermark=fetched.high_watermark, log_start_offset=fetched.log_start_offset)
        return Verdict.FETCH

    def _begin_within_a_batch(self, fetched: FetchedPartition, records: memoryview, now_ms: TimestampMs) -> Verdict:
        """The leader's log starts in the middle of a batch (delete-records): the log here starts with that batch."""
        partition = self.partition
        offset = read_header(records).base_offset
        if not self._may_truncate_to(offset):
            return Verdict.SETTLE
        try:
            partition.truncate_fully_to(offset)
        except StorageError as error:
            return self._stop(str(error))
        # At once: the leader gives nothing from that offset on.
        info = partition.append_as_follower(records, leader_epoch=self.leader_epoch, now_ms=now_ms)
        if info.error_code:
            return self._take_refusal(info.error_code, info.error_message)
        partition.follow(high_watermark=fetched.high_watermark, log_start_offset=fetched.log_start_offset)
        return self._after_truncation()

    def _common_end(self, diverging: EpochEndOffset) -> Offset:
        """Up to where both logs may be the same (KIP-279): the next fetch says whether they are."""
        log = self.partition.log
        end_offset = log.log_end_offset
        own = log.leader_epochs.end_offset_of(diverging.epoch, log_end_offset=end_offset)
        if own.end_offset < 0:
            return min(diverging.end_offset, end_offset)
        if own.leader_epoch != diverging.epoch:
            # We don't have that epoch: what the leader's ends at says nothing about ours before it.
            return min(own.end_offset, end_offset)
        return min(own.end_offset, diverging.end_offset, end_offset)

    def _truncate(self, offset: Offset) -> Verdict:
        partition = self.partition
        log = partition.log
        end_offset, high_watermark = log.log_end_offset, partition.high_watermark
        if offset < 0 or offset >= end_offset:
            return self._back_off(f"truncation to {offset} was asked for, the log ends at {end_offset}")
        if not self._may_truncate_to(offset):
            return Verdict.SETTLE
        partition.truncate_to(offset)
        _LOG.log(
            logging.WARNING if offset < high_watermark else logging.INFO,
            "%s: truncated from %d to %d, where the leader of epoch %d has other records; high watermark was %d",
            partition.topic_partition,
            end_offset,
            log.log_end_offset,
            self.leader_epoch,
            high_watermark,
        )
        return self._after_truncation()

    def _start_afresh(self, offset: Offset) -> Verdict:
        partition = self.partition
        if not self._may_truncate_to(offset):
            return Verdict.SETTLE
        _LOG.warning(
            "%s: starts afresh at %d, where the leader's log starts; nothing in it was the same, it ended at %d",
            partition.topic_partition,
            offset,
            partition.log.log_end_offset,
        )
        partition.truncate_fully_to(offset)
        return self._after_truncation()

    def _may_truncate_to(self, offset: Offset) -> bool:
        """Not as long as the recovery point lies behind: whatever is appended in the place of what is cut, perhaps as
        the next leader, a start after a crash must check. The fetch is repeated when the recovery point is lower."""
        self.settle_offset = offset
        return offset >= self.partition.log.recovery_point

    def _after_truncation(self) -> Verdict:
        """A start that moved down has to be on disk before anything is appended, or a crash takes it all."""
        log = self.partition.log
        self.settle_offset = log.log_end_offset
        has_lower_start = self.sent is not None and log.log_start_offset < self.sent.log_start_offset
        return Verdict.SETTLE if has_lower_start else Verdict.FETCH_ANEW

    def _take_error(self, fetched: FetchedPartition) -> Verdict:
        error_code = fetched.error_code
        if error_code != ErrorCode.OFFSET_OUT_OF_RANGE or fetched.log_start_offset < 0:
            try:
                return self._back_off(f"answered with {ErrorCode(error_code).name}")
            except ValueError:
                return self._back_off(f"answered with error code {error_code}")
        log = self.partition.log
        end_offset = log.log_end_offset
        if end_offset < fetched.log_start_offset:
            return self._start_afresh(fetched.log_start_offset)
        # Then the leader's log is shorter, and it could not say so by an epoch: we have none, or one that it never
        # heard of. What it has committed is the most that both are known to have.
        offset = max(fetched.high_watermark, fetched.log_start_offset)
        if log.log_start_offset < offset < end_offset:
            return self._truncate(offset)
        return self._start_afresh(fetched.log_start_offset)

    def _take_refusal(self, error_code: ErrorCode, message: str | None) -> Verdict:
        """Our own log takes nothing: because it is rotten, or we are no follower of that leader any more."""
        if error_code in _CORRUPT:
            self.corrupt_answers += 1
            if self.corrupt_answers < CORRUPT_ANSWERS_MAX:
                return self._back_off(f"{error_code.name}: {message}")
            _LOG.error(
                "%s: the leader's log is damaged at %d (%s): not fetched any more, what is here stays",
                self.partition.topic_partition,
                self.partition.log.log_end_offset,
                message,
            )
        elif error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._back_off(f"{error_code.name}: {message}")
        return self._stop(f"{error_code.name}: {message}")

    def _back_off(self, reason: str) -> Verdict:
        if not self.failures:
            _LOG.info(
                "%s: fetch at %d in leader epoch %d: %s",
                self.partition.topic_partition,
                self.wanted.fetch_offset,
                self.leader_epoch,
                reason,
            )
        self.reason = reason
        self.failures += 1
        return Verdict.BACK_OFF

    def _stop(self, reason: str) -> Verdict:
        self.reason = reason
        self.is_stopped = True
        return Verdict.STOP
