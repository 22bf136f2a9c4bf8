"""`ottla groups`: consumer groups, their members and their lag.

`groups_offsets.py` changes their offsets.
"""

from typing import Final, NamedTuple

import click

from ottla.cli.completion import complete_groups
from ottla.cli.failures import fail, failures_of, split_outcomes, worded
from ottla.cli.groups_offsets import delete_offsets_command, reset_offsets_command
from ottla.cli.matching import match
from ottla.cli.options import bootstrap_option, json_option, open_admin
from ottla.cli.output import number, print_json, print_names, print_table, say
from ottla.clients.admin import Admin
from ottla.clients.admin_groups import GroupDescription, GroupMember, ListedGroup
from ottla.clients.admin_offsets import CommittedOffset
from ottla.clients.errors import BrokerError
from ottla.clients.topics import LATEST
from ottla.core.types import Offset, TopicPartition

_STATES: Final = (
    "Stable", "PreparingRebalance", "CompletingRebalance", "Empty", "Dead", "Assigning", "Reconciling"
)  # fmt: skip
# Empty if the broker doesn't report the type. Share and streams groups of newer Kafkas have APIs of their own.
_DESCRIBED_TYPES: Final = ("", "classic", "consumer")


@click.group("groups")
def groups() -> None:
    """List, describe and delete consumer groups; reset and delete their offsets."""


groups.add_command(reset_offsets_command)
groups.add_command(delete_offsets_command)


@groups.command("list")
@bootstrap_option
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(_STATES, case_sensitive=False),
    help="Only groups in this state; may be repeated.",
)
@json_option
def list_command(bootstrap: str, states: tuple[str, ...], as_json: bool) -> None:
    """List the consumer groups; in a pipe only their names, one per line."""
    with open_admin(bootstrap) as admin:
        found = admin.list_groups()
    if states and any(not group.state for group in found):
        raise click.ClickException("this broker does not list the states of groups; use groups describe")
    shown = [group for group in found if not states or group.state in states]
    if as_json:
        print_json(
            [
                {
                    "group": group.group_id,
                    "type": group.type or None,
                    "state": group.state or None,
                    "protocol_type": group.protocol_type,
                }
                for group in shown
            ]
        )
    else:
        print_names(("GROUP", "TYPE", "STATE", "PROTOCOL"), _rows(shown))


def _rows(found: list[ListedGroup]) -> list[tuple[str, str, str, str]]:
    return [(group.group_id, group.type, group.state, group.protocol_type) for group in found]


class PartitionLag(NamedTuple):
    """None where there is no commit yet, no such partition any more, or no member that reads it."""

    topic_partition: TopicPartition
    committed: CommittedOffset | None
    log_end_offset: Offset | None
    member: GroupMember | None

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.log_end_offset is None:
            return None
        return max(0, self.log_end_offset - self.committed.offset)


def partition_lags(admin: Admin, group: GroupDescription) -> list[PartitionLag]:
    """Every partition with a committed offset of the group, or with a member that owns it."""
    committed = admin.list_group_offsets(group.group_id)
    owners = {topic_partition: member for member in group.members for topic_partition in member.assignment}
    topic_partitions = sorted({*committed, *owners})
    ends, _ = split_outcomes(lambda: admin.list_offsets(topic_partitions, LATEST, waits_for_leaders=False))
    return [
        PartitionLag(
            topic_partition,
            committed.get(topic_partition),
            ends[topic_partition].offset if topic_partition in ends else None,
            owners.get(topic_partition),
        )
        for topic_partition in topic_partitions
    ]


@groups.command("describe")
@click.argument("names", metavar="GROUPS...", nargs=-1, required=True, shell_complete=complete_groups)
@bootstrap_option
@click.option(
    "--offsets", "view", flag_value="offsets", default=True, help="Show offsets and lag by partition; the default."
)
@click.option("--members", "view", flag_value="members", help="Show the members and their partitions.")
@click.option("--state", "view", flag_value="state", help="Show state, coordinator and assignor.")
@json_option
def describe_command(names: tuple[str, ...], bootstrap: str, view: str, as_json: bool) -> int:
    """Show consumer groups. GROUPS may be patterns; '*' means all."""
    lags: dict[str, list[PartitionLag]] = {}
    with open_admin(bootstrap) as admin:
        described, problems = _described(admin, names)
        addresses = {broker_id: str(address) for broker_id, address in admin.brokers().items()}
        if view == "offsets":
            for group in described:
                try:
                    lags[group.group_id] = partition_lags(admin, group)
                except BrokerError as error:
                    problems.append(worded(error))
    if as_json:
        print_json([_as_object(group, view, lags.get(group.group_id)) for group in described])
    elif described:
        if view == "offsets":
            _print_offsets(described, lags)
        elif view == "members":
            _print_members(described)
        else:
            _print_states(described, addresses)
    for problem in problems:
        fail(problem)
    return 1 if problems else 0


def _described(admin: Admin, words: tuple[str, ...]) -> tuple[list[GroupDescription], list[str]]:
    listed = {group.group_id: group for group in admin.list_groups()}
    foreign = [name for name, group in listed.items() if group.type.lower() not in _DESCRIBED_TYPES]
    chosen, problems = match(words, listed, kind="group", hidden=foreign)
    for name in set(chosen).intersection(foreign):
        chosen.remove(name)
        problems.append(f"group {name} is of type {listed[name].type}; only consumer groups are known here")
    done, failed = split_outcomes(lambda: admin.describe_groups(chosen))
    return [done[name] for name in chosen if name in done], [*problems, *(worded(e) for e in failed.values())]


def _print_offsets(described: list[GroupDescription], lags: dict[str, list[PartitionLag]]) -> None:
    print_table(
        (
            "GROUP",
            "TOPIC",
            number("PARTITION"),
            number("CURRENT-OFFSET"),
            number("LOG-END-OFFSET"),
            number("LAG"),
            "CONSUMER-ID",
            "HOST",
            "CLIENT-ID",
        ),
        [
            (
                group.group_id,
                each.topic_partition.topic,
                each.topic_partition.partition,
                None if each.committed is None else each.committed.offset,
                each.log_end_offset,
                each.lag,
                None if each.member is None else each.member.member_id,
                None if each.member is None else each.member.host,
                None if each.member is None else each.member.client_id,
            )
            for group in described
            for each in lags.get(group.group_id, ())
        ],
    )
    click.echo()
    print_table(
        ("GROUP", "STATE", number("MEMBERS"), number("PARTITIONS"), number("TOTAL-LAG")),
        [
            (
                group.group_id,
                group.state,
                len(group.members),
                len(lags[group.group_id]),
                total_lag(lags[group.group_id]),
            )
            for group in described
            if group.group_id in lags
        ],
    )


def total_lag(lags: list[PartitionLag]) -> int:
    return sum(each.lag or 0 for each in lags)


def _print_members(described: list[GroupDescription]) -> None:
    print_table(
        ("GROUP", "CONSUMER-ID", "INSTANCE-ID", "HOST", "CLIENT-ID", number("PARTITIONS"), "ASSIGNMENT"),
        [
            (
                group.group_id,
                member.member_id,
                member.instance_id,
                member.host,
                member.client_id,
                len(member.assignment),
                assignment_text(member.assignment),
            )
            for group in described
            for member in group.members
        ],
    )
    for group in described:
        if not group.members:
            say(f"group {group.group_id} has no members; it is {group.state}")


def assignment_text(assignment: tuple[TopicPartition, ...]) -> str:
    """`orders(0,1),payments(2)`, as Kafka's tool writes it."""
    by_topic: dict[str, list[int]] = {}
    for topic_partition in assignment:
        by_topic.setdefault(topic_partition.topic, []).append(topic_partition.partition)
    return ",".join(f"{topic}({','.join(map(str, parts))})" for topic, parts in by_topic.items())


def _print_states(described: list[GroupDescription], addresses: dict[int, str]) -> None:
    print_table(
        ("GROUP", "COORDINATOR", "TYPE", "STATE", "ASSIGNOR", number("EPOCH"), number("MEMBERS")),
        [
            (
                group.group_id,
                f"{addresses.get(group.coordinator_id, '?')} ({group.coordinator_id})",
                group.type,
                group.state,
                group.assignor,
                group.epoch,
                len(group.members),
            )
            for group in described
        ],
    )


def _as_object(group: GroupDescription, view: str, lags: list[PartitionLag] | None) -> dict[str, object]:
    shown: dict[str, object] = {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor or None,
        "epoch": group.epoch,
        "coordinator": group.coordinator_id,
        "member_count": len(group.members),
    }
    if view == "members":
        shown["members"] = [
            {
                "consumer_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "assignment": [topic_partition._asdict() for topic_partition in member.assignment],
            }
            for member in group.members
        ]
    if lags is not None:
        shown["total_lag"] = total_lag(lags)
        shown["partitions"] = [
            {
                "topic": each.topic_partition.topic,
                "partition": each.topic_partition.partition,
                "current_offset": None if each.committed is None else each.committed.offset,
                "metadata": None if each.committed is None else each.committed.metadata,
                "log_end_offset": each.log_end_offset,
                "lag": each.lag,
                "consumer_id": None if each.member is None else each.member.member_id,
                "host": None if each.member is None else each.member.host,
                "client_id": None if each.member is None else each.member.client_id,
            }
            for each in lags
        ]
    return shown


@groups.command("delete")
@click.argument("names", metavar="GROUPS...", nargs=-1, required=True, shell_complete=complete_groups)
@bootstrap_option
@click.option("--execute", is_flag=True, help="Delete. Without it, only show what would be deleted.")
@json_option
def delete_command(names: tuple[str, ...], bootstrap: str, execute: bool, as_json: bool) -> int:
    """Delete groups with all their offsets. GROUPS may be patterns; a group with members is never deleted."""
    with open_admin(bootstrap) as admin:
        described, problems = _described(admin, names)
        for group in described:
            if group.has_members:
                problems.append(_still_read(group))
        empty = [group for group in described if not group.has_members]
        offsets = {group.group_id: len(admin.list_group_offsets(group.group_id)) for group in empty}
        failed: dict[str, BrokerError] = {}
        if execute:
            failed = failures_of(lambda: admin.delete_groups(offsets))
    problems += [worded(error) for error in failed.values()]
    shown = [group for group in empty if group.group_id not in failed]
    if as_json:
        print_json(
            [
                {"group": group.group_id, "state": group.state, "offsets": offsets[group.group_id], "deleted": execute}
                for group in shown
            ]
        )
    elif shown:
        print_table(
            ("GROUP", "STATE", number("OFFSETS")),
            [(group.group_id, group.state, offsets[group.group_id]) for group in shown],
            title="deleted:" if execute else "would be deleted:",
        )
    for problem in problems:
        fail(problem)
    if shown and not execute:
        say(f"Nothing was deleted. To delete {'this group' if len(shown) == 1 else 'these groups'}, add --execute.")
    return 1 if problems else 0


def _still_read(group: GroupDescription) -> str:
    count = len(group.members)
    return (
        f"group {group.group_id} is {group.state} with {count} member{'' if count == 1 else 's'}, so it can't be "
        f"deleted; stop its members first (ottla groups describe {group.group_id} --members)"
    )
