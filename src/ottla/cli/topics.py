"""`ottla topics`: lists and describes topics. `topics_change.py` changes them."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import click

from ottla.cli.completion import complete_topics
from ottla.cli.failures import fail, split_outcomes, worded
from ottla.cli.matching import match
from ottla.cli.options import bootstrap_option, json_option, open_admin
from ottla.cli.output import number, print_json, print_names, print_table
from ottla.cli.topics_change import alter_topics, create_topics, delete_topics
from ottla.clients.admin import Admin
from ottla.clients.admin_configs import ConfigEntry, ConfigSource, topic_resource
from ottla.clients.admin_topics import PartitionDescription, TopicDescription
from ottla.clients.cluster_view import NO_LEADER
from ottla.clients.errors import BrokerError
from ottla.protocol.apis import ApiKey

_MIN_IN_SYNC_KEY = "min.insync.replicas"


@click.group("topics")
def topics() -> None:
    """Create, list, describe, alter and delete topics."""


topics.add_command(create_topics)
topics.add_command(alter_topics)
topics.add_command(delete_topics)


@topics.command("list")
@bootstrap_option
@click.option("--exclude-internal", is_flag=True, help="Leave out internal topics, such as __consumer_offsets.")
@json_option
def list_command(bootstrap: str, exclude_internal: bool, as_json: bool) -> None:
    """List the topics; in a pipe only their names, one per line."""
    with open_admin(bootstrap) as admin:
        described, failed = split_outcomes(admin.describe_topics)
    shown = [described[name] for name in sorted(described) if not (exclude_internal and described[name].is_internal)]
    if as_json:
        print_json(
            [
                {
                    "name": topic.name,
                    "id": topic.topic_id,
                    "internal": topic.is_internal,
                    "partitions": len(topic.partitions),
                    "replication_factor": _replication_factor(topic),
                }
                for topic in shown
            ]
        )
    else:
        print_names(
            ("TOPIC", number("PARTITIONS"), number("REPLICATION"), "INTERNAL"),
            [(topic.name, len(topic.partitions), _replication_factor(topic), topic.is_internal) for topic in shown],
        )
    _end_with(failed.values())


class _Shown(NamedTuple):
    """A topic to show; its configuration is None if the broker doesn't return it."""

    topic: TopicDescription
    configs: tuple[ConfigEntry, ...] | None

    @property
    def differing(self) -> tuple[ConfigEntry, ...] | None:
        """The keys that differ from Kafka's defaults, whether set for the topic or on the broker."""
        if self.configs is None:
            return None
        return tuple(entry for entry in self.configs if entry.source != ConfigSource.DEFAULT_CONFIG)

    @property
    def has_overrides(self) -> bool:
        return any(entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG for entry in self.configs or ())

    @property
    def min_in_sync(self) -> int:
        return next((int(entry.value or 1) for entry in self.configs or () if entry.name == _MIN_IN_SYNC_KEY), 1)


_Filter = Callable[[_Shown, PartitionDescription], bool]
_FILTERS: dict[str, _Filter] = {
    "under_replicated": lambda shown, part: len(part.in_sync_ids) < len(part.replica_ids),
    "under_min_isr": lambda shown, part: len(part.in_sync_ids) < shown.min_in_sync,
    "at_min_isr": lambda shown, part: len(part.in_sync_ids) == shown.min_in_sync,
    "unavailable": lambda shown, part: part.leader_id == NO_LEADER,
}


@topics.command("describe")
@click.argument("names", nargs=-1, shell_complete=complete_topics)
@bootstrap_option
@click.option("--exclude-internal", is_flag=True, help="Leave out internal topics.")
@click.option(
    "--under-replicated",
    "--under-replicated-partitions",
    is_flag=True,
    help="Only partitions with a replica that is not in sync.",
)
@click.option(
    "--under-min-isr",
    "--under-min-isr-partitions",
    is_flag=True,
    help="Only partitions with too few in-sync replicas for acks=all.",
)
@click.option(
    "--at-min-isr", "--at-min-isr-partitions", is_flag=True, help="Only partitions with just enough in-sync replicas."
)
@click.option("--unavailable", "--unavailable-partitions", is_flag=True, help="Only partitions without a leader.")
@click.option("--topics-with-overrides", is_flag=True, help="Only topics that override the broker's configuration.")
@json_option
def describe_command(
    names: tuple[str, ...],
    bootstrap: str,
    exclude_internal: bool,
    topics_with_overrides: bool,
    as_json: bool,
    **filters: bool,
) -> None:
    """Show topics and their partitions: leader, replicas, in-sync replicas, and configuration that is not the default.

    NAMES may be patterns such as 'orders-*'; without any, all topics are shown. Of several filters, one must match.
    """
    wanted = [_FILTERS[name] for name, is_set in filters.items() if is_set]
    with open_admin(bootstrap) as admin:
        all_topics, _ = split_outcomes(admin.describe_topics)
        chosen, problems = match(names, all_topics, kind="topic") if names else (sorted(all_topics), [])
        # The second response has more than the list: the replicas that may become leader.
        described, failed = split_outcomes(lambda: admin.describe_topics(chosen))
        shown = _with_configs(admin, [described[name] for name in chosen if name in described])
    if exclude_internal:
        shown = [each for each in shown if not each.topic.is_internal]
    if topics_with_overrides:
        shown = [each for each in shown if each.has_overrides]
    if wanted:
        shown = [_only(each, wanted) for each in shown]
        shown = [each for each in shown if each.topic.partitions]
    if as_json:
        print_json([_as_object(each) for each in shown])
    elif shown or not problems:
        _print_described(shown, with_topics=not wanted, with_partitions=not topics_with_overrides)
    for problem in problems:
        fail(problem)
    _end_with(failed.values(), already_failed=bool(problems))


def _only(shown: _Shown, wanted: list[_Filter]) -> _Shown:
    left = tuple(part for part in shown.topic.partitions if any(matches(shown, part) for matches in wanted))
    return shown._replace(topic=shown.topic._replace(partitions=left))


def _with_configs(admin: Admin, described: list[TopicDescription]) -> list[_Shown]:
    if not admin.serves(ApiKey.DESCRIBE_CONFIGS):
        return [_Shown(topic, None) for topic in described]
    # A user who may not see the configuration may still see the topic.
    resources = [topic_resource(topic.name) for topic in described]
    entries, _ = split_outcomes(lambda: admin.describe_configs(resources))
    return [_Shown(topic, entries.get(topic_resource(topic.name))) for topic in described]


def _print_described(shown: list[_Shown], *, with_topics: bool, with_partitions: bool) -> None:
    if with_topics:
        print_table(
            ("TOPIC", "ID", number("PARTITIONS"), number("REPLICATION"), "CONFIGS"),
            [
                (
                    each.topic.name,
                    each.topic.topic_id,
                    len(each.topic.partitions),
                    _replication_factor(each.topic),
                    "unknown"
                    if each.differing is None
                    else " ".join(f"{entry.name}={_value(entry)}" for entry in each.differing),
                )
                for each in shown
            ],
        )
    if with_topics and with_partitions:
        click.echo()
    if with_partitions:
        print_table(
            ("TOPIC", number("PARTITION"), number("LEADER"), "REPLICAS", "IN-SYNC", "OFFLINE", "ELIGIBLE"),
            [
                (
                    each.topic.name,
                    part.partition,
                    "none" if part.leader_id == NO_LEADER else part.leader_id,
                    part.replica_ids,
                    part.in_sync_ids,
                    part.offline_ids,
                    part.eligible_leader_ids,
                )
                for each in shown
                for part in each.topic.partitions
            ],
        )


def _as_object(shown: _Shown) -> dict[str, object]:
    topic = shown.topic
    return {
        "name": topic.name,
        "id": topic.topic_id,
        "internal": topic.is_internal,
        "replication_factor": _replication_factor(topic),
        "configs": None
        if shown.differing is None
        else {entry.name: {"value": entry.value, "source": entry.source.name} for entry in shown.differing},
        "partitions": [
            {
                "partition": part.partition,
                "leader": None if part.leader_id == NO_LEADER else part.leader_id,
                "leader_epoch": part.leader_epoch,
                "replicas": part.replica_ids,
                "isr": part.in_sync_ids,
                "offline": part.offline_ids,
                "eligible_leaders": part.eligible_leader_ids,
                "last_known_eligible_leaders": part.last_known_eligible_ids,
            }
            for part in topic.partitions
        ],
    }


def _value(entry: ConfigEntry) -> str:
    return "hidden" if entry.is_sensitive else entry.value or ""


def _replication_factor(topic: TopicDescription) -> int:
    return max((len(part.replica_ids) for part in topic.partitions), default=0)


def _end_with(errors: Iterable[BrokerError], *, already_failed: bool = False) -> None:
    """Print each failure, and exit with code 1 if there was any."""
    for error in errors:
        already_failed = True
        fail(worded(error))
    if already_failed:
        click.get_current_context().exit(1)
