"""The loop behind `ottla consume`: by assignment, or as a member of a group, until there is a reason to end.

Prints records to stdout as they come; in a group it commits only positions of printed records.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import click

from ottla.cli.interruption import Interruption
from ottla.cli.offset_choice import OffsetChoice, nearest_offset, start_offsets, stop_offsets
from ottla.cli.record_output import RecordOutput
from ottla.clients.consumer.consumer import Consumer
from ottla.clients.consumer.errors import InvalidOffset, OffsetOutOfRange
from ottla.clients.consumer.listener import RebalanceListener
from ottla.clients.consumer.values import ConsumerRecord
from ottla.clients.errors import ClientError, TimedOut
from ottla.core.types import Offset, TopicPartition

_LOOK_WAIT_MS: Final = 200  # how long an interrupt may have to wait for records
_COMMIT_INTERVAL_MS: Final = 5_000
_COMMIT_TIMEOUT_MS: Final = 5_000
_JOIN_WAIT_MS: Final = 60_000
_UNREACHABLE_MS: Final = 30_000


class ConsumeJob(NamedTuple):
    """What the command line asks for."""

    choice: OffsetChoice
    limit: int | None = None
    ends_at_end: bool = False
    idle_timeout_ms: int | None = None
    is_quiet: bool = False


class Consumption(RebalanceListener):
    """One run over one consumer, which it doesn't close; ends at the limit, at all partition ends, or when idle."""

    def __init__(self, consumer: Consumer, output: RecordOutput, job: ConsumeJob, interruption: Interruption) -> None:
        self.written = 0
        self._consumer = consumer
        self._output = output
        self._job = job
        self._interruption = interruption
        self._group_id: str | None = None
        self._reading: set[TopicPartition] | None = None  # assigned and not read to its end; None before there are any
        self._stops: dict[TopicPartition, Offset] = {}
        self._reported_end: set[TopicPartition] = set()
        self._last_record_at = self._reached_at = self._committed_at = time.monotonic()

    def run_assigned(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Without a group: all of these partitions."""
        consumer = self._consumer
        consumer.assign(topic_partitions)
        self._begin(topic_partitions)
        self._seek(start_offsets(consumer, topic_partitions, self._job.choice))
        self._run()
        self._output.flush()

    def run_in_group(self, group_id: str, topics: Sequence[str]) -> None:
        """As a member. The consumer commits what was printed when it is closed."""
        self._group_id = group_id
        self._consumer.subscribe(topics, self)
        self._run()

    # A group's partitions come and go.

    def on_partitions_assigned(self, topic_partitions: Sequence[TopicPartition]) -> None:
        self._begin(topic_partitions)
        assigned = sorted(self._consumer.assignment().union(topic_partitions))
        shown = (
            ", ".join(f"{topic_partition.topic} [{topic_partition.partition}]" for topic_partition in assigned)
            or "no partitions"
        )
        self._report(f"Group {self._group_id}: assigned {shown}")

    def on_partitions_revoked(self, topic_partitions: Sequence[TopicPartition]) -> None:
        try:
            if not self._output.has_lost:
                self._output.flush()
                self._consumer.commit(self._written_offsets(), _COMMIT_TIMEOUT_MS)
        except ClientError as failure:
            self._tell_uncommitted(failure)
        finally:
            self._end(topic_partitions)

    def on_partitions_lost(self, topic_partitions: Sequence[TopicPartition]) -> None:
        self._end(topic_partitions)
        self._tell_uncommitted(None)

    def _tell_uncommitted(self, failure: ClientError | None) -> None:
        reason = "the group went on without this member" if failure is None else str(failure)
        self._report(f"Group {self._group_id}: offsets were not committed, some records may be read again: {reason}")

    def _begin(self, topic_partitions: Collection[TopicPartition]) -> None:
        self._stops |= stop_offsets(self._consumer, topic_partitions, self._job.choice)
        self._reading = (self._reading or set()).union(topic_partitions)
        self._last_record_at = time.monotonic()

    def _end(self, topic_partitions: Iterable[TopicPartition]) -> None:
        self._reading = (self._reading or set()).difference(topic_partitions)
        self._reported_end.difference_update(topic_partitions)
        for topic_partition in topic_partitions:
            self._stops.pop(topic_partition, None)

    # Reading.

    def _run(self) -> None:
        while not self._is_done():
            try:
                self._read_once()
            except InvalidOffset as error:
                self._find_positions(error)
            self._maybe_commit()

    def _is_done(self) -> bool:
        job = self._job
        if self._interruption.is_requested or self.written == job.limit:
            return True
        has_end = job.ends_at_end or job.choice.end_ms is not None
        if has_end and self._reading is not None and not self._reading:
            return True
        if job.idle_timeout_ms is None:
            return False
        # The time of a rebalance doesn't count as idle time.
        limit_ms = max(job.idle_timeout_ms, _JOIN_WAIT_MS) if self._reading is None else job.idle_timeout_ms
        return time.monotonic() - self._last_record_at > limit_ms / 1000

    def _read_once(self) -> None:
        consumer = self._consumer
        limit = self._job.limit
        left = None if limit is None else limit - self.written
        records = consumer.poll(0, max_records=left)
        if not records:
            # Output may wait in the buffer only while there is more to write.
            self._output.flush()
            self._output.check()
            records = consumer.poll(_LOOK_WAIT_MS, max_records=left)
        if records:
            self._last_record_at = self._reached_at = time.monotonic()
            self._write(records)
            topic_partitions = {(record.topic, record.partition) for record in records}
            self._look_for_ends([TopicPartition(*topic_partition) for topic_partition in topic_partitions])
        else:
            self._check_reached()
            self._look_for_ends(list(self._reading or ()))

    def _write(self, records: list[ConsumerRecord]) -> None:
        stops = self._stops
        if stops:
            records = [
                record for record in records if record.offset < stops[TopicPartition(record.topic, record.partition)]
            ]
        self._output.write(records)
        self.written += len(records)

    def _look_for_ends(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Reports partitions that are read to their current ends; with -e, finishes them."""
        reading = self._reading
        for topic_partition in topic_partitions:
            if reading is None or topic_partition not in reading:
                continue
            stop = self._stops.get(topic_partition)
            position = self._position(topic_partition) if stop is not None else None
            if stop is not None and position is not None and position >= stop:
                self._finish(topic_partition)
            elif self._consumer.lag(topic_partition) == 0:
                if topic_partition not in self._reported_end:
                    exiting = ": exiting" if self._job.ends_at_end and len(reading) == 1 else ""
                    topic, partition = topic_partition
                    where = f"topic {topic} [{partition}] at offset {self._position(topic_partition)}"
                    self._report(f"Reached end of {where}{exiting}")
                self._reported_end.add(topic_partition)
                if self._job.ends_at_end:
                    self._finish(topic_partition)
            else:
                self._reported_end.discard(topic_partition)

    def _finish(self, topic_partition: TopicPartition) -> None:
        assert self._reading is not None
        self._reading.discard(topic_partition)
        self._consumer.pause(topic_partition)

    def _check_reached(self) -> None:
        """A consumer retries for ever; without this the user would see nothing of it."""
        failure = self._consumer.unreachable
        now = time.monotonic()
        if failure is None:
            self._reached_at = now
        elif now - self._reached_at > _UNREACHABLE_MS / 1000:
            raise failure

    # Positions.

    def _find_positions(self, error: InvalidOffset) -> None:
        """For partitions without a committed offset, or whose log doesn't have the wanted one."""
        if isinstance(error, OffsetOutOfRange):
            nearest = {
                topic_partition: nearest_offset(self._consumer, topic_partition, position)
                for topic_partition, position in error.positions.items()
            }
            for topic_partition, position in error.positions.items():
                self._report(
                    f"{topic_partition}: there is no offset {position}; reading on from {nearest[topic_partition]}"
                )
            self._seek(nearest)
        else:
            self._seek(start_offsets(self._consumer, error.topic_partitions, self._job.choice))

    def _seek(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        assigned = self._consumer.assignment()
        for topic_partition, offset in offsets.items():
            if topic_partition in assigned:
                self._consumer.seek(topic_partition, offset)

    def _position(self, topic_partition: TopicPartition) -> Offset | None:
        try:
            return self._consumer.position(topic_partition, timeout_ms=0)
        except TimedOut:
            return None  # not found yet

    def _maybe_commit(self) -> None:
        now = time.monotonic()
        if self._group_id is not None and now - self._committed_at >= _COMMIT_INTERVAL_MS / 1000:
            self._committed_at = now
            self._output.flush()
            self._consumer.commit_async(self._written_offsets())  # if it fails, the next one has it again

    def _written_offsets(self) -> dict[TopicPartition, Offset]:
        """The positions to commit; records fetched beyond a stop were not printed."""
        offsets = {}
        for topic_partition in self._consumer.assignment():
            position = self._position(topic_partition)
            if position is not None:
                offsets[topic_partition] = min(position, self._stops.get(topic_partition, position))
        return offsets

    def _report(self, text: str) -> None:
        if not self._job.is_quiet:
            click.echo(f"% {text}", err=True)
