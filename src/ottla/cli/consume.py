"""`ottla consume`: what topics hold and what comes in, in the flags of kcat and the names of Kafka's own tool."""

from typing import Final

import click

from ottla.cli.consumption import ConsumeJob, Consumption, OutputClosed
from ottla.cli.escapes import unescape
from ottla.cli.interruption import Interruption
from ottla.cli.offset_choice import HELP, OffsetChoice, parse_offset_choice
from ottla.cli.options import bootstrap_option, open_cluster
from ottla.cli.record_format import TOKENS_HELP, RecordPrinter, compile_format, plain_printer
from ottla.cli.record_json import json_lines
from ottla.clients.assignors import ASSIGNORS
from ottla.clients.fetching import READ_COMMITTED, READ_UNCOMMITTED
from ottla.clients.group_member import SESSION_TIMEOUT_MS, GroupMember
from ottla.clients.topic_lookup import count_partitions
from ottla.clients.topics import EARLIEST
from ottla.core.types import TopicPartition

_EXIT_INTERRUPTED: Final = 130
_ISOLATION: Final = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}


@click.command("consume")
@bootstrap_option
@click.option("-t", "--topic", "topics", multiple=True, required=True, help="What to read; may be repeated.")
@click.option(
    "-p", "--partition", "partitions", multiple=True, type=click.IntRange(min=0), help="Only this; may be repeated."
)
@click.option("-g", "-G", "--group", "group_id", help="Read as a member of this group, and commit what was read.")
@click.option("-o", "--offset", "offsets", multiple=True, metavar="WHERE", help=f"Where to begin: {HELP}.")
@click.option("--from-beginning", is_flag=True, help="The same as -o beginning.")
@click.option(
    "-c", "--max-messages", "--count", "limit", type=click.IntRange(min=1), metavar="N", help="Stop after so many."
)
@click.option("-e", "--exit", "ends_at_end", is_flag=True, help="Stop at the end of all partitions.")
@click.option("--timeout-ms", type=click.IntRange(min=1), metavar="N", help="Stop when nothing came for so long.")
@click.option("-f", "--format", "template", metavar="FMT", help=f"{TOKENS_HELP}.")
@click.option("-J", "--json-lines", "is_json", is_flag=True, help="JSON lines, which `ottla produce -J` reads back.")
@click.option("-K", "--key-delimiter", metavar="DELIM", help="Print keys, with this between key and value.")
@click.option("-D", "--delimiter", metavar="DELIM", default=r"\n", help="Printed after each. Default: a new line.")
@click.option("-Z", "--null", "shows_null", is_flag=True, help="Print NULL for keys and values that are null.")
@click.option("-q", "--quiet", is_flag=True, help="Nothing on stderr but errors.")
@click.option("-u", "--unbuffered", is_flag=True, help="Write each record at once.")
@click.option("--isolation-level", type=click.Choice(list(_ISOLATION)), default="read_uncommitted", show_default=True)
@click.option(
    "--assignor", "assignors", multiple=True, type=click.Choice(list(ASSIGNORS)),
    help="How the group may share partitions out; may be repeated. Default: all of them.",
)  # fmt: skip
@click.option(
    "--session-timeout-ms", type=click.IntRange(min=1), default=SESSION_TIMEOUT_MS, show_default=True,
    help="After so long without a sign of life the group goes on without this member.",
)  # fmt: skip
def consume(
    bootstrap: str,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    group_id: str | None,
    offsets: tuple[str, ...],
    from_beginning: bool,
    limit: int | None,
    ends_at_end: bool,
    timeout_ms: int | None,
    template: str | None,
    is_json: bool,
    key_delimiter: str | None,
    delimiter: str,
    shows_null: bool,
    quiet: bool,
    unbuffered: bool,
    isolation_level: str,
    assignors: tuple[str, ...],
    session_timeout_ms: int,
) -> int:
    """Print records of topics, from their beginning on unless -o says otherwise, and wait for more.

    With -g partitions are shared with the other members of the group, and reading begins where the group is; -o counts
    only where the group has no offset yet, and is `end` by default. Offsets are committed every five seconds and at
    the end, for what was printed.
    """
    if group_id is not None and partitions:
        raise click.UsageError("-p and -g exclude each other: in a group the members share the partitions out")
    try:
        choice = _choice(offsets, from_beginning=from_beginning, in_group=group_id is not None)
        printer = _printer(template, is_json, key_delimiter, delimiter, shows_null)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    job = ConsumeJob(
        printer=printer,
        choice=choice,
        limit=limit,
        ends_at_end=ends_at_end,
        idle_timeout_ms=timeout_ms,
        isolation_level=_ISOLATION[isolation_level],
        is_unbuffered=unbuffered,
        is_quiet=quiet,
    )
    with Interruption() as interruption, open_cluster(bootstrap) as cluster:
        counts = count_partitions(cluster, topics)
        places = _places(counts, partitions)
        interruption.defer()
        consumption = Consumption(cluster, job, interruption)
        try:
            if group_id is None:
                consumption.run_assigned(places)
            else:
                member = GroupMember(
                    cluster,
                    group_id,
                    topics,
                    assignors=assignors or tuple(ASSIGNORS),
                    session_timeout_ms=session_timeout_ms,
                    heartbeat_interval_ms=max(1, min(3_000, session_timeout_ms // 3)),
                    should_stop=lambda: interruption.is_requested,
                )
                consumption.run_in_group(member)
        except OutputClosed:
            return 0
        return _EXIT_INTERRUPTED if interruption.is_requested else 0


def _choice(offsets: tuple[str, ...], *, from_beginning: bool, in_group: bool) -> OffsetChoice:
    choice = parse_offset_choice(offsets)
    if from_beginning:
        if choice.has_start:
            raise ValueError("--from-beginning and -o both say where to begin")
        choice = choice._replace(special=EARLIEST)
    if choice.is_stored and not in_group:
        raise ValueError("-o stored needs a group, whose offsets are stored: -g GROUP")
    if not choice.has_start and not in_group:
        choice = choice._replace(special=EARLIEST)
    return choice


def _printer(
    template: str | None, is_json: bool, key_delimiter: str | None, delimiter: str, shows_null: bool
) -> RecordPrinter:
    null = b"NULL" if shows_null else b""
    if is_json:
        if template is not None:
            raise ValueError("-J and -f exclude each other")
        return json_lines
    if template is not None:
        return compile_format(template, null=null)
    between = None if key_delimiter is None else unescape(key_delimiter)
    return plain_printer(key_delimiter=between, delimiter=unescape(delimiter), null=null)


def _places(counts: dict[str, int], partitions: tuple[int, ...]) -> list[TopicPartition]:
    for topic, count in counts.items():
        for partition in partitions:
            if partition >= count:
                raise click.ClickException(f"topic {topic} has {count} partitions, from 0 on; there is no {partition}")
    return [
        TopicPartition(topic, partition)
        for topic, count in counts.items()
        for partition in (sorted(set(partitions)) or range(count))
    ]
