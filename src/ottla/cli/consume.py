"""`ottla consume`: prints records of topics, with the flags of kcat and the option names of Kafka's own tool."""

import time
from collections.abc import Callable
from typing import Final

import click

from ottla.cli.client_settings import client_settings, pairs_of
from ottla.cli.consumption import ConsumeJob, Consumption
from ottla.cli.escapes import unescape
from ottla.cli.interruption import Interruption
from ottla.cli.offset_choice import HELP, OffsetChoice, choice_of_reset, parse_offset_choice
from ottla.cli.options import bootstrap_option, open_admin, worded_failures
from ottla.cli.record_format import TOKENS_HELP, RecordPrinter, compile_format, plain_printer
from ottla.cli.record_json import json_lines
from ottla.cli.record_output import OutputClosed, RecordOutput
from ottla.cli.topic_lookup import count_partitions
from ottla.clients.consumer.consumer import Consumer
from ottla.clients.consumer.keys import CONSUMER_DEFINITION
from ottla.clients.consumer.strategies import ALL_ASSIGNORS
from ottla.clients.topics import EARLIEST
from ottla.core.types import TopicPartition

_EXIT_INTERRUPTED: Final = 130
_SESSION_TIMEOUT_MS: Final = 45_000
_CLOSE_TIMEOUT_MS: Final = 5_000
_POLL_RECORDS: Final = 5_000
_OWNED: Final = {
    "group.id": "join a group with -g GROUP",
    "enable.auto.commit": "with -g offsets are committed for what was printed",
    "key.deserializer": "records are printed as -f, -J, -K and -Z say",
    "value.deserializer": "records are printed as -f, -J, -K and -Z say",
}
# Creates the printer for a consumer, from which JSON gets the leaders of partitions.
_PrinterFor = Callable[[Consumer], RecordPrinter]


@click.command("consume")
@bootstrap_option
@click.option("-t", "--topic", "topics", multiple=True, required=True, help="Read this topic; may be repeated.")
@click.option(
    "-p",
    "--partition",
    "partitions",
    multiple=True,
    type=click.IntRange(min=0),
    help="Read only this partition; may be repeated.",
)
@click.option("-g", "-G", "--group", "group_id", help="Join this consumer group and commit what was printed.")
@click.option("-o", "--offset", "offsets", multiple=True, metavar="WHERE", help=f"Where to start: {HELP}.")
@click.option("--from-beginning", is_flag=True, help="The same as -o beginning.")
@click.option(
    "-c", "--max-messages", "--count", "limit", type=click.IntRange(min=1), metavar="N", help="Stop after N records."
)
@click.option("-e", "--exit", "ends_at_end", is_flag=True, help="Stop at the end of all partitions.")
@click.option("--timeout-ms", type=click.IntRange(min=1), metavar="N", help="Stop when no record has arrived for N ms.")
@click.option("-f", "--format", "template", metavar="FMT", help=f"{TOKENS_HELP}.")
@click.option("-J", "--json-lines", "is_json", is_flag=True, help="Print JSON lines; `ottla produce -J` reads them.")
@click.option("-K", "--key-delimiter", metavar="DELIM", help="Print keys, with this between key and value.")
@click.option(
    "-D", "--delimiter", metavar="DELIM", default=r"\n", help="Print this after each record. Default: a new line."
)
@click.option("-Z", "--null", "shows_null", is_flag=True, help="Print NULL for keys and values that are null.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors to stderr.")
@click.option("-u", "--unbuffered", is_flag=True, help="Write each record at once.")
@click.option(
    "--isolation-level", type=click.Choice(["read_uncommitted", "read_committed"]), default="read_uncommitted",
    show_default=True,
)  # fmt: skip
@click.option(
    "--assignor", "assignors", multiple=True, type=click.Choice(list(ALL_ASSIGNORS)),
    help="How the group assigns partitions; may be repeated. Default: all of them.",
)  # fmt: skip
@click.option(
    "--session-timeout-ms", type=click.IntRange(min=2), default=_SESSION_TIMEOUT_MS, show_default=True,
    help="The group removes a member that sends no heartbeat for this long.",
)  # fmt: skip
@click.option(
    "-X", "--consumer-property", "--command-property", "settings", multiple=True, metavar="NAME=VALUE",
    help="A setting of the consumer, such as fetch.max.bytes=1000000.",
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
    settings: tuple[str, ...],
) -> int:
    """Print the records of topics, from the beginning unless -o says otherwise, and wait for more.

    With -g the command is a member of a consumer group: it shares the partitions with the other members and starts at
    the committed offsets. -o then applies only to partitions without one, and is `end` by default. Every five seconds
    and at the end the command commits the offsets of what it has printed.
    """
    if group_id is not None and partitions:
        raise click.UsageError("-p and -g can't be used together: in a group the members share the partitions")
    try:
        reset = pairs_of(settings, "-X").get("auto.offset.reset")
        choice = _choice(offsets, from_beginning=from_beginning, in_group=group_id is not None, reset=reset)
        printer_for = _printer_for(template, is_json, key_delimiter, delimiter, shows_null)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    chosen: dict[str, object] = {
        "isolation.level": isolation_level,
        "max.poll.records": _POLL_RECORDS,
        "allow.auto.create.topics": False,
    }
    if group_id is not None:
        chosen |= {
            "group.id": group_id,
            "enable.auto.commit": False,
            "partition.assignment.strategy": assignors or tuple(ALL_ASSIGNORS),
            "session.timeout.ms": session_timeout_ms,
            "heartbeat.interval.ms": max(1, min(3_000, session_timeout_ms // 3)),
        }
    client = client_settings(CONSUMER_DEFINITION, bootstrap, settings, chosen=chosen, owned=_OWNED)
    client["auto.offset.reset"] = "none"  # `choice` says where to begin
    job = ConsumeJob(choice, limit=limit, ends_at_end=ends_at_end, idle_timeout_ms=timeout_ms, is_quiet=quiet)
    with Interruption() as interruption:
        with open_admin(bootstrap) as admin:
            topic_partitions = _topic_partitions(count_partitions(admin, topics), partitions)
        interruption.defer()
        with worded_failures():
            consumer = Consumer(client)
            try:
                output = RecordOutput(printer_for(consumer), is_unbuffered=unbuffered)
                consumption = Consumption(consumer, output, job, interruption)
                if group_id is None:
                    consumption.run_assigned(topic_partitions)
                else:
                    consumption.run_in_group(group_id, topics)
            except OutputClosed:
                return 0
            finally:
                consumer.close(_CLOSE_TIMEOUT_MS)
        return _EXIT_INTERRUPTED if interruption.is_requested else 0


def _choice(offsets: tuple[str, ...], *, from_beginning: bool, in_group: bool, reset: str | None) -> OffsetChoice:
    choice = parse_offset_choice(offsets)
    if from_beginning:
        if choice.has_start:
            raise ValueError("--from-beginning and -o both say where to begin")
        choice = choice._replace(special=EARLIEST)
    if reset is not None:
        if choice.has_start:
            raise ValueError("-X auto.offset.reset and -o both say where to begin")
        choice = choice_of_reset(reset, time.time_ns() // 1_000_000)._replace(end_ms=choice.end_ms)
    if choice.is_stored and not in_group:
        raise ValueError("-o stored needs a group, whose offsets are stored: -g GROUP")
    if not choice.has_start and not in_group:
        choice = choice._replace(special=EARLIEST)
    return choice


def _printer_for(
    template: str | None, is_json: bool, key_delimiter: str | None, delimiter: str, shows_null: bool
) -> _PrinterFor:
    null = b"NULL" if shows_null else b""
    if is_json:
        if template is not None:
            raise ValueError("-J and -f can't be used together")
        return lambda consumer: lambda records: json_lines(records, consumer.leader_of)
    if template is not None:
        printer = compile_format(template, null=null)
    else:
        between = None if key_delimiter is None else unescape(key_delimiter)
        printer = plain_printer(key_delimiter=between, delimiter=unescape(delimiter), null=null)
    return lambda consumer: printer


def _topic_partitions(counts: dict[str, int], partitions: tuple[int, ...]) -> list[TopicPartition]:
    for topic, count in counts.items():
        for partition in partitions:
            if partition >= count:
                raise click.ClickException(f"topic {topic} has {count} partitions, from 0 on; there is no {partition}")
    return [
        TopicPartition(topic, partition)
        for topic, count in counts.items()
        for partition in (sorted(set(partitions)) or range(count))
    ]
