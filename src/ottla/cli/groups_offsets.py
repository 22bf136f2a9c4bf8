"""`ottla groups reset-offsets` and `delete-offsets`: they show a plan, and execute it with --execute."""

import time
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.completion import complete_groups, complete_topics
from ottla.cli.failures import fail, failures_of, nearest, worded
from ottla.cli.options import bootstrap_option, json_option, open_admin
from ottla.cli.output import number, print_json, print_table, say
from ottla.cli.reset_plan import (
    Ends,
    Move,
    parse_datetime_ms,
    parse_duration_ms,
    parse_topic,
    plan_lines,
    plan_moves,
    read_plan,
    wanted_offsets,
)
from ottla.clients.admin import Admin
from ottla.clients.admin_offsets import NO_OFFSET
from ottla.clients.errors import BrokerError
from ottla.clients.topics import EARLIEST, LATEST
from ottla.core.errors import ErrorCode
from ottla.core.types import Offset, TopicPartition

_SCENARIOS: Final = (
    "to_earliest", "to_latest", "to_current", "to_offset", "to_datetime", "by_duration", "shift_by", "from_file"
)  # fmt: skip


def _time(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    parse = parse_datetime_ms if parameter.name == "to_datetime" else parse_duration_ms
    try:
        return None if value is None else parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _topics(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, list[int] | None], ...]:
    try:
        return tuple(parse_topic(value) for value in values)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


_topic_option = click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:0,1]",
    callback=_topics,
    shell_complete=complete_topics,
    help="All partitions of a topic, or those named; may be repeated.",
)


@click.command("reset-offsets")
@click.argument("group", shell_complete=complete_groups)
@bootstrap_option
@_topic_option
@click.option("--all-topics", is_flag=True, help="Every partition with a committed offset.")
@click.option("--to-earliest", is_flag=True, help="To the first offset.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option("--to-current", is_flag=True, help="To the committed offsets; with --export, to save them.")
@click.option("--to-offset", type=click.IntRange(min=0), help="To this offset.")
@click.option(
    "--to-datetime",
    callback=_time,
    metavar="TIME",
    help="To the first record at or after this time; UTC unless it has +hh:mm.",
)
@click.option(
    "--by-duration", callback=_time, metavar="PnDTnHnMnS", help="To the first record after now minus this duration."
)
@click.option("--shift-by", type=int, help="By this number of offsets; a negative number moves back.")
@click.option(
    "--from-file",
    type=click.File(encoding="utf-8"),
    metavar="CSV",
    help="To the offsets in topic,partition,offset lines.",
)
@click.option("--export", "export_path", type=click.Path(dir_okay=False, allow_dash=True), metavar="CSV",
              help="Write the plan for --from-file; - is stdout.")  # fmt: skip
@click.option("--execute", is_flag=True, help="Change the offsets. Without it, only show the plan.")
@click.option("--dry-run", is_flag=True, help="Only show the plan; the default.")
@json_option
def reset_offsets_command(
    group: str,
    bootstrap: str,
    topics: tuple[tuple[str, list[int] | None], ...],
    all_topics: bool,
    export_path: str | None,
    execute: bool,
    dry_run: bool,
    as_json: bool,
    **scenarios: Any,
) -> int:
    """Move the committed offsets of GROUP, which must have no members. Shows the plan until --execute.

    An offset outside of a partition's log becomes the nearest end of the log.
    """
    scenario = _one_scenario(scenarios)
    if execute and dry_run:
        raise click.UsageError("give --execute or --dry-run, not both")
    if scenario == "from_file" and (topics or all_topics):
        raise click.UsageError("--from-file names its topics itself; leave out --topic and --all-topics")
    if scenario != "from_file" and bool(topics) == all_topics:
        raise click.UsageError("say which offsets: either --topic TOPIC[:0,1] (may be repeated) or --all-topics")
    with open_admin(bootstrap) as admin:
        _check_nobody_reads(admin, group, may_be_new=not all_topics)
        committed = {
            topic_partition: found.offset for topic_partition, found in admin.list_group_offsets(group).items()
        }
        if scenario == "from_file":
            topic_partitions = sorted(given := _plan_from(scenarios["from_file"], group))
        else:
            given = {}
            topic_partitions = sorted(committed) if all_topics else _topic_partitions(admin, topics)
        if not topic_partitions:
            raise click.ClickException(f"group {group} has committed no offsets; name what to set with --topic")
        ends = _ends(admin, topic_partitions)
        wanted = _wanted(admin, scenario, scenarios[scenario], committed, ends, given)
        moves = plan_moves(wanted, committed, ends)
        failed: dict[TopicPartition, BrokerError] = {}
        if execute:
            offsets = {move.topic_partition: move.new_offset for move in moves}
            failed = failures_of(lambda: admin.alter_group_offsets(group, offsets))
    done = [move for move in moves if move.topic_partition not in failed]
    _show_moves(group, done, export_path, executed=execute, as_json=as_json)
    for error in failed.values():
        fail(worded(error))
    if not execute:
        say("Nothing was changed. To carry out this plan, add --execute.")
    return 1 if failed else 0


def _one_scenario(scenarios: dict[str, Any]) -> str:
    chosen = [name for name in _SCENARIOS if scenarios[name] is not None and scenarios[name] is not False]
    if len(chosen) != 1:
        options = [f"--{name.replace('_', '-')}" for name in (chosen or _SCENARIOS)]
        problem = "use only one of these" if chosen else "say where to, with one of"
        raise click.UsageError(f"{problem}: {', '.join(options)}")
    return chosen[0]


def _check_nobody_reads(admin: Admin, group: str, *, may_be_new: bool) -> None:
    try:
        described = admin.describe_groups([group])[group]
    except BrokerError as error:
        if error.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        if not may_be_new:
            known = [listed.group_id for listed in admin.list_groups()]
            raise click.ClickException(f"group {group}: no such group{nearest(group, known)}") from error
        say(f"group {group} does not exist yet")
        return
    if described.members:
        count = len(described.members)
        raise click.ClickException(
            f"group {group} is {described.state} with {count} member{'' if count == 1 else 's'}; offsets can be reset "
            f"only while it has no members: stop them first (ottla groups describe {group} --members shows them)"
        )


def _plan_from(file: Any, group: str) -> dict[TopicPartition, Offset]:
    try:
        return read_plan(file, group)
    except (ValueError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file.name}: {error}") from error


def _topic_partitions(admin: Admin, topics: tuple[tuple[str, list[int] | None], ...]) -> list[TopicPartition]:
    described = admin.describe_topics()
    topic_partitions: set[TopicPartition] = set()
    for name, partitions in topics:
        if name not in described:
            raise click.ClickException(f"topic {name}: no such topic{nearest(name, described)}")
        known = {part.partition for part in described[name].partitions}
        for partition in known if partitions is None else partitions:
            if partition not in known:
                raise click.ClickException(f"topic {name} has partitions 0 to {len(known) - 1}, not {partition}")
            topic_partitions.add(TopicPartition(name, partition))
    return sorted(topic_partitions)


def _ends(admin: Admin, topic_partitions: list[TopicPartition]) -> dict[TopicPartition, Ends]:
    first, last = (_offsets(admin, topic_partitions, end) for end in (EARLIEST, LATEST))
    return {
        topic_partition: Ends(first[topic_partition], last[topic_partition]) for topic_partition in topic_partitions
    }


def _offsets(admin: Admin, topic_partitions: list[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, Offset]:
    found = admin.list_offsets(topic_partitions, timestamp_ms)  # raises if any failed: a plan with holes is none
    return {topic_partition: listed.offset for topic_partition, listed in found.items()}


def _wanted(
    admin: Admin,
    scenario: str,
    value: Any,
    committed: dict[TopicPartition, Offset],
    ends: dict[TopicPartition, Ends],
    given: dict[TopicPartition, Offset],
) -> dict[TopicPartition, Offset]:
    if scenario in ("to_datetime", "by_duration"):
        timestamp_ms = value if scenario == "to_datetime" else int(time.time() * 1000) - value
        by_time = _offsets(admin, list(ends), max(0, timestamp_ms))
        # No record is so young: the end, where the next one will be.
        given = {
            topic_partition: ends[topic_partition].end if offset == NO_OFFSET else offset
            for topic_partition, offset in by_time.items()
        }

    def choose(topic_partition: TopicPartition) -> Offset | None:
        match scenario:
            case "to_earliest":
                return ends[topic_partition].first
            case "to_latest":
                return ends[topic_partition].end
            case "to_offset":
                return int(value)
            case "to_current":
                return committed.get(topic_partition, ends[topic_partition].end)
            case "shift_by":
                return committed[topic_partition] + int(value) if topic_partition in committed else None
            case _:
                return given[topic_partition]

    wanted, unknown = wanted_offsets(ends, choose)
    if unknown:
        raise click.ClickException(f"--shift-by needs a committed offset, and {unknown[0]} has none; use --to-offset")
    return wanted


def _show_moves(group: str, moves: list[Move], export_path: str | None, *, executed: bool, as_json: bool) -> None:
    if export_path is not None and export_path != "-":
        try:
            Path(export_path).write_text(plan_lines(moves), encoding="utf-8")
        except OSError as error:
            raise click.FileError(export_path, hint=error.strerror or str(error)) from error
    if export_path == "-":
        click.echo(plan_lines(moves), nl=False)
    elif as_json:
        print_json(
            [
                {
                    "group": group,
                    "topic": move.topic_partition.topic,
                    "partition": move.topic_partition.partition,
                    "current_offset": move.old_offset,
                    "new_offset": move.new_offset,
                    "note": move.note or None,
                    "executed": executed,
                }
                for move in moves
            ]
        )
    else:
        print_table(
            ("GROUP", "TOPIC", number("PARTITION"), number("CURRENT-OFFSET"), number("NEW-OFFSET"), "NOTE"),
            [(group, *move.topic_partition, move.old_offset, move.new_offset, move.note) for move in moves],
        )


@click.command("delete-offsets")
@click.argument("group", shell_complete=complete_groups)
@bootstrap_option
@_topic_option
@click.option("--execute", is_flag=True, help="Delete. Without it, only show what would be deleted.")
@json_option
def delete_offsets_command(
    group: str, bootstrap: str, topics: tuple[tuple[str, list[int] | None], ...], execute: bool, as_json: bool
) -> int:
    """Delete the committed offsets of GROUP for topics. Refused for topics that its members read."""
    if not topics:
        raise click.UsageError("say which offsets: --topic TOPIC[:0,1] (may be repeated)")
    with open_admin(bootstrap) as admin:
        committed = {
            topic_partition: found.offset for topic_partition, found in admin.list_group_offsets(group).items()
        }
        chosen, problems = _committed_for(topics, committed, group)
        failed: dict[TopicPartition, BrokerError] = {}
        if execute and chosen:
            failed = failures_of(lambda: admin.delete_group_offsets(group, chosen))
    shown = [topic_partition for topic_partition in chosen if topic_partition not in failed]
    if as_json:
        print_json(
            [
                {**topic_partition._asdict(), "offset": committed[topic_partition], "deleted": execute}
                for topic_partition in shown
            ]
        )
    elif shown:
        print_table(
            ("GROUP", "TOPIC", number("PARTITION"), number("OFFSET")),
            [(group, *topic_partition, committed[topic_partition]) for topic_partition in shown],
            title="deleted:" if execute else "would be deleted:",
        )
    for problem in [*problems, *(worded(error) for error in failed.values())]:
        fail(problem)
    if shown and not execute:
        say("Nothing was deleted. To delete these offsets, add --execute.")
    return 1 if problems or failed else 0


def _committed_for(
    topics: tuple[tuple[str, list[int] | None], ...], committed: dict[TopicPartition, Offset], group: str
) -> tuple[list[TopicPartition], list[str]]:
    """The offsets to delete, and a problem for each that was never committed."""
    chosen: set[TopicPartition] = set()
    problems = []
    for name, partitions in topics:
        found = {topic_partition for topic_partition in committed if topic_partition.topic == name}
        if partitions is not None:
            found &= {TopicPartition(name, partition) for partition in partitions}
        if not found:
            hint = nearest(name, {topic_partition.topic for topic_partition in committed} - {name})
            problems.append(f"group {group} has no offset for topic {name}{hint}")
        chosen |= found
    return sorted(chosen), problems
