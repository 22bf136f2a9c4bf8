"""The loops behind `ottla consume`: by assignment, or as a member of a group, until there is a reason to end.

Records go to stdout as they come; positions of a group are committed only for what was written there.
"""

import os
import select
import sys
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

import click

from ottla.cli.interruption import Interruption
from ottla.cli.offset_choice import OffsetChoice, nearest_offset, start_offsets, stop_offsets
from ottla.cli.record_format import RecordPrinter
from ottla.clients.cluster import Cluster
from ottla.clients.fetching import READ_UNCOMMITTED, AssignedReader, FetchedRecords, OffsetOutOfRange
from ottla.clients.group_member import GroupMember, Stopped
from ottla.core.types import Offset, TopicPartition
from ottla.records.read import Record

_FETCH_WAIT_MS: Final = 500
_LOOK_WAIT_MS: Final = 200  # how long an interrupt or a heartbeat may have to wait for a fetch
_COMMIT_INTERVAL_MS: Final = 5_000


class ConsumeJob(NamedTuple):
    """What a command line asks for."""

    printer: RecordPrinter
    choice: OffsetChoice
    limit: int | None = None
    ends_at_end: bool = False
    idle_timeout_ms: int | None = None
    isolation_level: int = READ_UNCOMMITTED
    is_unbuffered: bool = False
    is_quiet: bool = False


class OutputClosed(Exception):
    """Whoever read our stdout is gone, as `head` is after its lines."""


class Consumption:
    """One run over one reader; `is_done` when the limit, the ends of all partitions or the idle time are reached."""

    def __init__(self, cluster: Cluster, job: ConsumeJob, interruption: Interruption) -> None:
        self.written = 0
        self._cluster = cluster
        self._job = job
        self._interruption = interruption
        self._reader = AssignedReader(cluster, {}, max_wait_ms=_FETCH_WAIT_MS, isolation_level=job.isolation_level)
        self._stops: dict[TopicPartition, Offset] = {}
        self._finished: dict[TopicPartition, Offset] = {}  # partitions that are read to their end, and where that was
        self._told_end: set[TopicPartition] = set()
        self._last_record_at = time.monotonic()
        self._is_flushed = True
        self._output = select.poll()
        self._output.register(sys.stdout.fileno(), 0)  # errors only, which are always told

    def run_assigned(self, places: list[TopicPartition]) -> None:
        """Without a group: all of these partitions."""
        with self._reader:
            self._assign(places, start_offsets(self._cluster, places, self._job.choice))
            while not self._is_done():
                self._read_once(_LOOK_WAIT_MS)
            self._flush()

    def run_in_group(self, member: GroupMember) -> None:
        """As a member; on the way out what was written is committed, and the partitions are given to the others."""
        with self._reader:
            try:
                self._join(member)
                committed_at = time.monotonic()
                while not self._is_done():
                    self._read_once(min(_LOOK_WAIT_MS, max(1, member.idle_ms())))
                    member.tend()
                    if member.must_rejoin:
                        self._commit(member)
                        self._join(member)
                        committed_at = time.monotonic()
                    elif time.monotonic() - committed_at >= _COMMIT_INTERVAL_MS / 1000:
                        self._commit(member)
                        committed_at = time.monotonic()
            except Stopped:
                return
            finally:
                self._end_membership(member)

    def _end_membership(self, member: GroupMember) -> None:
        try:
            self._flush()
        finally:
            try:
                self._commit(member)
            except Stopped:
                pass
            member.leave()

    def _join(self, member: GroupMember) -> None:
        self._reader.positions.clear()
        self._finished.clear()
        places = member.join()
        committed = member.committed(places)
        fresh = [place for place in places if place not in committed]
        self._assign(places, {**committed, **start_offsets(self._cluster, fresh, self._job.choice)})
        if not self._job.is_quiet:
            shown = ", ".join(f"{place.topic} [{place.partition}]" for place in places) or "no partitions"
            click.echo(f"% Group {member.group_id}: assigned {shown}", err=True)

    def _commit(self, member: GroupMember) -> None:
        self._flush()
        offsets = {**self._reader.positions, **self._finished}
        if not member.commit(offsets) and offsets and not self._job.is_quiet:
            click.echo(
                f"% Group {member.group_id}: the last offsets were not committed, for the group went on without this "
                "member; some records may be read again",
                err=True,
            )

    def _assign(self, places: list[TopicPartition], starts: Mapping[TopicPartition, Offset]) -> None:
        self._stops = stop_offsets(self._cluster, places, self._job.choice)
        self._told_end.clear()
        self._reader.end_offsets.clear()
        self._reader.positions = {place: starts[place] for place in places}
        self._finish_stopped()

    def _is_done(self) -> bool:
        job = self._job
        if self._interruption.is_requested or self.written == job.limit:
            return True
        if not self._reader.positions and (job.ends_at_end or self._stops):
            return True
        if job.idle_timeout_ms is None:
            return False
        return time.monotonic() - self._last_record_at > job.idle_timeout_ms / 1000

    def _read_once(self, timeout_ms: int) -> None:
        reader = self._reader
        if not reader.positions:
            time.sleep(timeout_ms / 1000)
            return
        try:
            # What was written may wait in the buffer only as long as there is more to write.
            fetched = reader.fetch(0)
            if not fetched:
                self._flush()
                self._check_output()
                fetched = reader.fetch(timeout_ms)
        except OffsetOutOfRange as error:
            nearest = nearest_offset(self._cluster, error.place, error.position)
            reader.positions[error.place] = nearest
            if not self._job.is_quiet:
                click.echo(f"% {error.place}: there is no offset {error.position}; reading on from {nearest}", err=True)
            return
        if fetched:
            self._last_record_at = time.monotonic()
        for index, run in enumerate(fetched):
            if not self._write(run):
                self._rewind(fetched[index + 1 :])
                break
        self._finish_stopped()
        self._look_for_ends()

    def _write(self, run: FetchedRecords) -> bool:
        """Print a run; False when the limit came within or at the end of it."""
        records = run.records
        stop = self._stops.get(run.place)
        if stop is not None and records[-1].offset >= stop:
            records = [record for record in records if record.offset < stop]
        limit = self._job.limit
        left = len(records) if limit is None else limit - self.written
        if left < len(records):
            self._reader.positions[run.place] = records[left].offset
            records = records[:left]
        self._put(run, records)
        self.written += len(records)
        return self.written != limit

    def _put(self, run: FetchedRecords, records: list[Record]) -> None:
        try:
            if self._job.is_unbuffered:
                for record in records:
                    sys.stdout.buffer.write(self._job.printer(run, [record]))
                    sys.stdout.buffer.flush()
            elif records:
                sys.stdout.buffer.write(self._job.printer(run, records))
                self._is_flushed = False
        except BrokenPipeError:
            self._give_up_output()

    def _rewind(self, unwritten: list[FetchedRecords]) -> None:
        """What was fetched but not written is not read, as far as a group is concerned."""
        for run in reversed(unwritten):
            if run.place in self._reader.positions:
                self._reader.positions[run.place] = min(run.records[0].offset, self._reader.positions[run.place])

    def _flush(self) -> None:
        if self._is_flushed:
            return
        self._is_flushed = True
        try:
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            self._give_up_output()

    def _check_output(self) -> None:
        """A pipe whose reader is gone shows it without a write: nobody waits for what is still to come."""
        if self._output.poll(0):
            self._give_up_output()

    def _give_up_output(self) -> None:
        # The interpreter flushes stdout once more at its end, and would complain about what we know.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        self._is_flushed = True
        raise OutputClosed

    def _finish_stopped(self) -> None:
        positions = self._reader.positions
        for place, stop in self._stops.items():
            if place in positions and positions[place] >= stop:
                self._finished[place] = stop
                del positions[place]

    def _look_for_ends(self) -> None:
        reader = self._reader
        for place in [place for place in reader.positions if reader.is_at_end(place)]:
            if place not in self._told_end and not self._job.is_quiet:
                exiting = ": exiting" if self._job.ends_at_end and len(reader.positions) == 1 else ""
                click.echo(
                    f"% Reached end of topic {place.topic} [{place.partition}] at offset {reader.positions[place]}"
                    f"{exiting}",
                    err=True,
                )
            self._told_end.add(place)
            if self._job.ends_at_end:
                self._finished[place] = reader.positions.pop(place)
        for place in [place for place in self._told_end if place in reader.positions and not reader.is_at_end(place)]:
            self._told_end.discard(place)
