"""`ottla topics create`, `alter` and `delete`. Without --execute, `delete` only shows what it would do."""

from collections.abc import Iterable
from typing import NamedTuple

import click

from ottla.cli.completion import complete_topic_keys, complete_topics
from ottla.cli.failures import fail, failures_of, split_outcomes, worded
from ottla.cli.key_values import known_topic_keys, parse_pairs, worded_with_keys
from ottla.cli.matching import match
from ottla.cli.options import bootstrap_option, json_option, open_admin
from ottla.cli.output import human_bytes, number, print_json, print_table, progress, say
from ottla.clients.admin import Admin
from ottla.clients.admin_configs import AlterKind, ConfigChange, topic_resource
from ottla.clients.admin_topics import CreatedTopic, TopicDescription
from ottla.clients.errors import BrokerError, UnsupportedByBroker
from ottla.clients.topics import EARLIEST, LATEST, USE_BROKER_DEFAULT, NewTopic
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, TopicPartition
from ottla.protocol.apis import ApiKey

# In groups of this size, so that a long list shows progress.
_TOPICS_PER_STEP = 50


def parse_assignment(text: str) -> tuple[tuple[BrokerId, ...], ...]:
    """`1:2,2:1`: the replicas of each partition, its preferred leader first, as in Kafka's tool."""
    try:
        placed = tuple(tuple(int(broker_id) for broker_id in part.split(":")) for part in text.split(","))
    except ValueError:
        raise click.UsageError(
            f"--replica-assignment {text}: expected broker ids such as 1:2,2:1 for two partitions with two replicas"
        ) from None
    for partition, replicas in enumerate(placed):
        if len(set(replicas)) < len(replicas):
            raise click.UsageError(f"--replica-assignment {text}: partition {partition} names a broker twice")
        if len(replicas) != len(placed[0]):
            raise click.UsageError(f"--replica-assignment {text}: all partitions need the same number of replicas")
    return placed


@click.command("create")
@click.argument("names", nargs=-1, required=True)
@bootstrap_option
@click.option(
    "--partitions", type=click.IntRange(min=1), help="Number of partitions. Default: the broker's num.partitions."
)
@click.option(
    "--replication-factor", type=click.IntRange(min=1), help="Replicas of each partition. Default: the broker's."
)
@click.option("--replica-assignment", metavar="ID:ID,…", help="Broker ids of each partition, instead of counts.")
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", shell_complete=complete_topic_keys,
              help="Set a key of the topic; may be repeated.")  # fmt: skip
@click.option("--if-not-exists", is_flag=True, help="Do not fail for a topic that exists already.")
@click.option("--validate-only", is_flag=True, help="Only ask the cluster whether it would do this.")
@json_option
def create_topics(
    names: tuple[str, ...],
    bootstrap: str,
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
    as_json: bool,
) -> int:
    """Create the topics NAMES, all with the same settings."""
    if replica_assignment is not None and (partitions is not None or replication_factor is not None):
        raise click.UsageError("give --replica-assignment, or --partitions and --replication-factor, not both")
    pairs = parse_pairs(configs, option="--config")
    assignments = () if replica_assignment is None else parse_assignment(replica_assignment)
    wanted = [
        NewTopic(
            name,
            USE_BROKER_DEFAULT if partitions is None else partitions,
            USE_BROKER_DEFAULT if replication_factor is None else replication_factor,
            tuple(pairs),
            assignments,
        )
        for name in dict.fromkeys(names)
    ]
    created: dict[str, CreatedTopic] = {}
    failed: dict[str, BrokerError] = {}
    with open_admin(bootstrap) as admin, progress("creating", len(wanted)) as went_on:
        for start in range(0, len(wanted), _TOPICS_PER_STEP):
            step = wanted[start : start + _TOPICS_PER_STEP]
            done, refused = split_outcomes(
                lambda step=step: admin.create_topics(step, validate_only=validate_only, wait_for_leaders=False)  # type: ignore[misc]
            )
            created.update(done)
            failed.update(refused)
            went_on(len(step))
    if as_json:
        print_json([_created_object(topic) for topic in created.values()])
    else:
        for topic in created.values():
            click.echo(_created_line(topic, validate_only=validate_only))
    for name, error in list(failed.items()):
        if error.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and if_not_exists:
            say(f"topic {name} exists already")
            del failed[name]
        else:
            fail(worded_with_keys(error, [key for key, _ in pairs], known_topic_keys()))
    return 1 if failed else 0


def _created_object(topic: CreatedTopic) -> dict[str, object]:
    return {
        "name": topic.name,
        "id": topic.topic_id,
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
    }


def _created_line(topic: CreatedTopic, *, validate_only: bool) -> str:
    line = f"{'would create' if validate_only else 'created'} topic {topic.name}"
    if topic.partitions < 0:  # brokers before Kafka 2.4 don't return it
        return line
    plural = "" if topic.partitions == 1 else "s"
    return f"{line}: {topic.partitions} partition{plural}, replication factor {topic.replication_factor}"


@click.command("alter")
@click.argument("names", nargs=-1, required=True, shell_complete=complete_topics)
@bootstrap_option
@click.option("--partitions", type=click.IntRange(min=1), help="Add partitions until the topic has this number.")
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", shell_complete=complete_topic_keys,
              help="Set a key of the topic; may be repeated.")  # fmt: skip
@click.option("--delete-config", "deleted", multiple=True, metavar="KEY", shell_complete=complete_topic_keys,
              help="Remove a key of the topic: the broker's value applies; may be repeated.")  # fmt: skip
@click.option("--validate-only", is_flag=True, help="Only ask the cluster whether it would do this.")
def alter_topics(
    names: tuple[str, ...],
    bootstrap: str,
    partitions: int | None,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
    validate_only: bool,
) -> int:
    """Add partitions to the topics NAMES, or change their configuration. Does all of it or nothing."""
    pairs = parse_pairs(configs, option="--config")
    changes = [ConfigChange(key, AlterKind.SET, value) for key, value in pairs]
    changes += [ConfigChange(key, AlterKind.DELETE) for key in dict.fromkeys(deleted)]
    keys = [change.name for change in changes]
    if len(set(keys)) < len(keys):
        raise click.UsageError("a key can be set or deleted, not both")
    if partitions is None and not changes:
        raise click.UsageError("say what to alter: --partitions, --config or --delete-config")
    with open_admin(bootstrap) as admin:
        all_topics, _ = split_outcomes(admin.describe_topics)
        chosen, problems = match(names, all_topics, kind="topic")
        # First validate everything, then do it: half of a change is worse than none.
        for only_asks in (True,) if validate_only else (True, False):
            if not problems:
                problems = _alter(admin, chosen, partitions, changes, validate_only=only_asks)
    for problem in problems:
        fail(problem)
    if problems:
        return 1
    parts = [f"{partitions} partitions"] if partitions is not None else []
    parts += [f"{change.name}={change.value}" for change in changes if change.kind == AlterKind.SET]
    parts += [f"{change.name} as on the broker" for change in changes if change.kind == AlterKind.DELETE]
    for name in chosen:
        click.echo(f"{'would alter' if validate_only else 'altered'} topic {name}: {', '.join(parts)}")
    return 0


def _alter(
    admin: Admin, names: list[str], partitions: int | None, changes: list[ConfigChange], *, validate_only: bool
) -> list[str]:
    """The problems, as messages."""
    problems = []
    if partitions is not None:
        counts = dict.fromkeys(names, partitions)
        _, refused = split_outcomes(lambda: admin.add_partitions(counts, validate_only=validate_only))
        problems += [worded(error) for error in refused.values()]
    if changes:
        by_topic = {topic_resource(name): changes for name in names}
        failed = failures_of(lambda: admin.alter_configs(by_topic, validate_only=validate_only))
        keys = [change.name for change in changes]
        problems += [worded_with_keys(error, keys, known_topic_keys()) for error in failed.values()]
    return problems


class _Contents(NamedTuple):
    """What a topic holds; None where unknown. The bytes are those of all replicas."""

    partitions: int
    records: int | None
    size_bytes: int | None


@click.command("delete")
@click.argument("names", nargs=-1, required=True, shell_complete=complete_topics)
@bootstrap_option
@click.option("--execute", is_flag=True, help="Delete. Without it, only show what would be deleted.")
@click.option("--if-exists", is_flag=True, help="Do not fail for a topic that does not exist.")
@json_option
def delete_topics(names: tuple[str, ...], bootstrap: str, execute: bool, if_exists: bool, as_json: bool) -> int:
    """Delete topics with their records. NAMES may be patterns such as 'test-*'; quote them.

    Patterns never match the cluster's own topics. RECORDS counts offsets; a compacted topic has fewer records.
    """
    with open_admin(bootstrap) as admin:
        all_topics, _ = split_outcomes(admin.describe_topics)
        internal = [topic.name for topic in all_topics.values() if topic.is_internal]
        chosen, problems = match(names, all_topics, kind="topic", hidden=internal)
        contents = _contents(admin, [all_topics[name] for name in chosen])
        failed: dict[str, BrokerError] = {}
        if execute:
            with progress("deleting", len(chosen)) as went_on:
                for start in range(0, len(chosen), _TOPICS_PER_STEP):
                    step = chosen[start : start + _TOPICS_PER_STEP]
                    failed.update(failures_of(lambda step=step: admin.delete_topics(step)))  # type: ignore[misc]
                    went_on(len(step))
    shown = {name: contents[name] for name in chosen if name not in failed}
    if as_json:
        print_json([{"name": name, **held._asdict(), "deleted": execute} for name, held in shown.items()])
    elif shown:
        _print_contents(shown, title="deleted" if execute else "would be deleted")
    for problem in problems:
        if if_exists:
            say(problem)
        else:
            fail(problem)
    for error in failed.values():
        fail(worded(error))
    if not execute and shown:
        say(f"Nothing was deleted. To delete {_topics_word(len(shown))}, add --execute.")
    return 1 if failed or (problems and not if_exists) else 0


def _topics_word(count: int) -> str:
    return "this topic" if count == 1 else f"these {count} topics"


def _print_contents(shown: dict[str, _Contents], *, title: str) -> None:
    print_table(
        ("TOPIC", number("PARTITIONS"), number("RECORDS"), number("BYTES")),
        [
            (name, held.partitions, held.records, None if held.size_bytes is None else human_bytes(held.size_bytes))
            for name, held in shown.items()
        ],
        title=f"{title}:",
    )


def _contents(admin: Admin, described: Iterable[TopicDescription]) -> dict[str, _Contents]:
    """As far as the brokers report it; unknown figures are no reason to refuse."""
    by_name = {topic.name: topic for topic in described}
    topic_partitions = [
        TopicPartition(topic.name, part.partition) for topic in by_name.values() for part in topic.partitions
    ]
    records: dict[str, int | None] = dict.fromkeys(by_name, 0)
    first, _ = split_outcomes(lambda: admin.list_offsets(topic_partitions, EARLIEST, waits_for_leaders=False))
    last, _ = split_outcomes(lambda: admin.list_offsets(topic_partitions, LATEST, waits_for_leaders=False))
    for topic_partition in topic_partitions:
        so_far = records[topic_partition.topic]
        if topic_partition not in first or topic_partition not in last:
            records[topic_partition.topic] = None
        elif so_far is not None:
            records[topic_partition.topic] = so_far + last[topic_partition].offset - first[topic_partition].offset
    sizes = _sizes(admin, topic_partitions)
    return {
        name: _Contents(len(topic.partitions), records[name], None if sizes is None else sizes.get(name, 0))
        for name, topic in by_name.items()
    }


def _sizes(admin: Admin, topic_partitions: list[TopicPartition]) -> dict[str, int] | None:
    if not admin.serves(ApiKey.DESCRIBE_LOG_DIRS):
        return None
    sizes: dict[str, int] = {}
    try:
        for directory in admin.describe_log_dirs(topic_partitions):
            for replica in directory.replicas:
                sizes[replica.topic_partition.topic] = sizes.get(replica.topic_partition.topic, 0) + replica.size_bytes
    except (BrokerError, UnsupportedByBroker):
        return None  # not allowed to look, say
    return sizes
