"""What a correct cluster never does, judged after a run: over what its clients saw, and over what its replicas hold.

Each rule is a function that raises `BrokenRule`, and `check_run` runs them all. `step_rules.py` has those that are
judged while the run goes on.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ottla.core.cluster import OFFSETS_TOPIC
from ottla.core.types import NO_PRODUCER_ID, Offset, ProducerEpoch, ProducerId, TopicPartition
from ottla.records.header import add_to_sequence
from ottla.testing.simulation.broken_rule import BrokenRule
from ottla.testing.simulation.history import NO_COMMIT, UNKNOWN_OFFSET, Assignment, CommitStep, History
from ottla.testing.simulation.replica_logs import PartitionAtEnd, ReplicaLog


def check_run(history: History, partitions: Sequence[PartitionAtEnd]) -> None:
    """All rules. The run must have settled: every partition has a leader on a live broker, and its followers fetched
    all there is."""
    every_value_read_was_sent(history)
    one_value_per_offset(history)
    no_gaps_or_inversions_in_a_read(history)
    no_value_twice(history)
    one_owner_per_partition_and_generation(history)
    commits_are_kept(history)
    for partition in partitions:
        if partition.partition in history.lossy:
            continue
        no_log_starts_later_than_asked(history, partition)
        acked_records_are_readable(history, partition)
        records_once_read_stay_readable(history, partition)
        replicas_agree_below_the_high_watermark(partition)
        in_sync_replicas_have_what_is_committed(partition)
        for replica in partition.replicas:
            no_duplicate_per_producer_sequence(partition.partition, replica)


# Over the history


def every_value_read_was_sent(history: History) -> None:
    for by, partition, offset, value in _reads(history):
        if value not in history.values.get(partition, {}):
            raise BrokenRule("every value read was sent", f"{by} read {value!r} at {partition} offset {offset}")


def one_value_per_offset(history: History) -> None:
    seen: dict[tuple[TopicPartition, Offset], tuple[bytes, str]] = {}
    for partition, offset, value, witness in _sightings(history):
        if partition in history.lossy:
            continue
        first, first_witness = seen.setdefault((partition, offset), (value, witness))
        if first != value:
            raise BrokenRule(
                "one value per offset",
                f"{partition} offset {offset}: {first!r} ({first_witness}), then {value!r} ({witness})",
            )


def no_gaps_or_inversions_in_a_read(history: History) -> None:
    """For topics without compaction and transactions: every offset below the high watermark has a record."""
    for reader, runs in history.runs.items():
        for run in runs:
            for (offset, _), (next_offset, _) in pairwise(run):
                asked = history.deleted_before.get(reader.partition, 0)
                is_reset = offset < next_offset <= asked  # to the start of the log, which had passed it
                if next_offset != offset + 1 and not is_reset:
                    raise BrokenRule(
                        "no gaps or inversions in a read",
                        f"{reader.by} read {reader.partition} offset {offset}, then {next_offset}",
                    )


def no_value_twice(history: History) -> None:
    """What an idempotent producer sent is at one offset."""
    seen: dict[tuple[TopicPartition, bytes], tuple[Offset, str]] = {}
    for partition, offset, value, witness in _sightings(history):
        sent = history.values.get(partition, {}).get(value)
        if sent is None or not sent.is_idempotent or partition in history.lossy:
            continue
        first, first_witness = seen.setdefault((partition, value), (offset, witness))
        if first != offset:
            raise BrokenRule(
                "no value twice",
                f"{partition}: {value!r} of {sent.client} at offset {first} ({first_witness}) and {offset} ({witness})",
            )


def one_owner_per_partition_and_generation(history: History) -> None:
    if _lost_groups(history):
        return
    for assignment, members in history.owners.items():
        if len(members) > 1:
            raise BrokenRule("one owner per partition and generation", _owners(assignment, members))


def commits_are_kept(history: History) -> None:
    """A group reads the offset that was last acknowledged, one that it sent later, or one that was never answered:
    such a request may be carried out at any time."""
    if _lost_groups(history):
        return
    possible: dict[tuple[str, TopicPartition], list[_SentCommit]] = {}
    for step, group, partition, offset in history.commits:
        commits = possible.setdefault((group, partition), [_SentCommit(NO_COMMIT, is_acked=True)])
        if step == CommitStep.SENT:
            commits.append(_SentCommit(offset, is_acked=False))
        elif step == CommitStep.ACKED:
            latest = max(index for index, commit in enumerate(commits) if commit.offset == offset)
            kept = [commit for commit in commits[:latest] if not commit.is_acked]
            commits[: latest + 1] = [*kept, _SentCommit(offset, is_acked=True)]
        elif partition not in history.lossy and offset not in [commit.offset for commit in commits]:
            offsets = [commit.offset for commit in commits]
            raise BrokenRule("commits are kept", f"group {group}, {partition}: {offset} read, {offsets} are possible")


def _lost_groups(history: History) -> bool:
    """Groups whose log may have lost something know neither their generations nor their commits."""
    return any(partition.topic == OFFSETS_TOPIC for partition in history.lossy)


class _SentCommit(NamedTuple):
    offset: Offset
    is_acked: bool


# Over what the replicas hold


def no_log_starts_later_than_asked(history: History, partition: PartitionAtEnd) -> None:
    """At most there, for topics without retention. A crash may bring back what was deleted, as in Kafka: starts of logs
    are written to disk now and then."""
    asked = history.deleted_before.get(partition.partition, 0)
    log = _led_log(partition)
    if log.log_start_offset > asked:
        raise BrokenRule(
            "no log starts later than asked",
            f"{partition.partition}: at {log.log_start_offset} on leader {log.broker_id}, {asked} was asked for",
        )


def acked_records_are_readable(history: History, partition: PartitionAtEnd) -> None:
    log = _led_log(partition)
    values = log.values
    offsets = {value: offset for offset, value in values.items()}
    for ack in history.acks.get(partition.partition, ()):
        offset = offsets.get(ack.value, 0) if ack.offset == UNKNOWN_OFFSET else ack.offset
        if offset >= log.log_start_offset:
            found = values.get(offset)
            if found != ack.value:
                raise BrokenRule(
                    "acked records are readable",
                    f"{partition.partition} offset {ack.offset}: {ack.value!r} acked in leader epoch "
                    f"{ack.leader_epoch}, {found!r} found at leader {log.broker_id}, "
                    f"high watermark {log.high_watermark}",
                )


def records_once_read_stay_readable(history: History, partition: PartitionAtEnd) -> None:
    """What a consumer saw was committed: it is neither lost nor replaced."""
    log = _led_log(partition)
    values = log.values
    for by, _, offset, value in _reads(history, partition.partition):
        if offset >= log.log_start_offset and values.get(offset) != value:
            raise BrokenRule(
                "records once read stay readable",
                f"{partition.partition} offset {offset}: {by} read {value!r}, {values.get(offset)!r} found at leader "
                f"{log.broker_id}, high watermark {log.high_watermark}",
            )


def replicas_agree_below_the_high_watermark(partition: PartitionAtEnd) -> None:
    """Byte for byte: a follower appends what it was sent. Each is compared with the leader, up to the lower mark."""
    leader = _led_log(partition)
    for replica in partition.replicas:
        start = max(leader.log_start_offset, replica.log_start_offset)
        end = min(leader.high_watermark, replica.high_watermark)
        ours, theirs = _batches_within(replica, start, end), _batches_within(leader, start, end)
        for offset in sorted({*ours, *theirs}):
            if ours.get(offset) != theirs.get(offset):
                raise BrokenRule(
                    "replicas agree below the high watermark",
                    f"{partition.partition} offset {offset}: broker {replica.broker_id} and leader "
                    f"{leader.broker_id} differ, high watermarks {replica.high_watermark} and {leader.high_watermark}",
                )


def in_sync_replicas_have_what_is_committed(partition: PartitionAtEnd) -> None:
    leader = _led_log(partition)
    for replica in partition.replicas:
        if replica.broker_id in partition.isr and replica.log_end_offset < leader.high_watermark:
            raise BrokenRule(
                "in-sync replicas have what is committed",
                f"{partition.partition}: in-sync replica {replica.broker_id} ends at {replica.log_end_offset}, "
                f"the high watermark of leader {leader.broker_id} is {leader.high_watermark}",
            )


def no_duplicate_per_producer_sequence(partition: TopicPartition, replica: ReplicaLog) -> None:
    seen: dict[tuple[ProducerId, ProducerEpoch, int], Offset] = {}
    for header, _ in replica.batches:
        if header.producer_id == NO_PRODUCER_ID or header.base_sequence < 0:
            continue
        for delta in range(header.last_offset_delta + 1):
            sequence = add_to_sequence(header.base_sequence, delta)
            key = (header.producer_id, header.producer_epoch, sequence)
            offset = header.base_offset + delta
            first = seen.setdefault(key, offset)
            if first != offset:
                raise BrokenRule(
                    "no duplicate per producer sequence",
                    f"{partition}: producer {header.producer_id}, epoch {header.producer_epoch}, sequence {sequence} "
                    f"at offsets {first} and {offset} of broker {replica.broker_id}",
                )


def _reads(history: History, only: TopicPartition | None = None) -> Iterator[tuple[str, TopicPartition, Offset, bytes]]:
    for reader, runs in history.runs.items():
        if only not in (None, reader.partition):
            continue
        for run in runs:
            for offset, value in run:
                yield reader.by, reader.partition, offset, value


def _sightings(history: History) -> Iterator[tuple[TopicPartition, Offset, bytes, str]]:
    """Every (partition, offset, value) that somebody learned of, with a name for how."""
    for partition, acks in history.acks.items():
        for ack in acks:
            if ack.offset != UNKNOWN_OFFSET:
                yield partition, ack.offset, ack.value, f"acked in leader epoch {ack.leader_epoch}"
    for by, partition, offset, value in _reads(history):
        yield partition, offset, value, f"read by {by}"


def _owners(assignment: Assignment, members: Iterable[str]) -> str:
    owners = " and ".join(members)
    return f"group {assignment.group}, generation {assignment.generation}: {assignment.partition} belongs to {owners}"


def _led_log(partition: PartitionAtEnd) -> ReplicaLog:
    log = partition.leader_log()
    if log is None:
        raise BrokenRule(
            "a settled partition has a leader",
            f"{partition.partition}: leader {partition.leader} is none of the live replicas "
            f"{[replica.broker_id for replica in partition.replicas]}",
        )
    return log


def _batches_within(replica: ReplicaLog, start: Offset, end: Offset) -> dict[Offset, bytes]:
    """Whole batches only: the start of a log may lie within one."""
    return {
        header.base_offset: data
        for header, data in replica.batches
        if header.base_offset >= start and header.next_offset <= end
    }
