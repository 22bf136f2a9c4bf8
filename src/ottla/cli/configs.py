"""`ottla configs`: the configuration of topics and brokers, the source of each value, and changes key by key."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ottla.cli.completion import complete_topics
from ottla.cli.failures import fail, failures_of, nearest, split_outcomes, worded
from ottla.cli.key_values import parse_pairs, worded_with_keys
from ottla.cli.options import bootstrap_option, json_option, open_admin
from ottla.cli.output import print_json, print_table, say
from ottla.clients.admin import Admin
from ottla.clients.admin_configs import (
    AlterKind,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
    broker_resource,
    topic_resource,
)

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


@click.group("configs")
def configs() -> None:
    """Describe and alter the configuration of topics and brokers."""


def _resource_options(command: CommandT) -> CommandT:
    for option in (
        click.option("--broker-defaults", is_flag=True, help="The defaults of all brokers."),
        click.option(
            "--broker", "broker_ids", multiple=True, type=click.IntRange(min=0), metavar="ID", help="A broker."
        ),
        click.option("--topic", "topic_names", multiple=True, shell_complete=complete_topics, help="A topic."),
    ):
        command = option(command)
    return command


def _resources(
    topic_names: tuple[str, ...], broker_ids: tuple[int, ...], broker_defaults: bool
) -> list[ConfigResource]:
    kinds = sum((bool(topic_names), bool(broker_ids), broker_defaults))
    if kinds != 1:
        raise click.UsageError("say whose configuration: --topic NAME, --broker ID or --broker-defaults, one of them")
    if topic_names:
        return [topic_resource(name) for name in dict.fromkeys(topic_names)]
    return [broker_resource(broker_id) for broker_id in dict.fromkeys(broker_ids)] or [broker_resource(None)]


def _unknown(admin: Admin, resources: list[ConfigResource]) -> dict[ConfigResource, str]:
    """Fails for a topic or broker that doesn't exist, with the nearest name."""
    if resources[0].type == ResourceType.TOPIC:
        known = admin.list_topics()
        return {
            resource: f"{resource}: no such topic{nearest(resource.name, known)}"
            for resource in resources
            if resource.name not in known
        }
    brokers = admin.brokers()
    listed = ", ".join(str(broker_id) for broker_id in sorted(brokers))
    return {
        resource: f"{resource}: no such broker; the cluster has {listed}"
        for resource in resources
        if resource.name and int(resource.name) not in brokers
    }


@configs.command("describe")
@bootstrap_option
@_resource_options
@click.option("--all", "with_defaults", is_flag=True, help="Also show keys that have Kafka's default.")
@json_option
def describe_command(
    bootstrap: str,
    topic_names: tuple[str, ...],
    broker_ids: tuple[int, ...],
    broker_defaults: bool,
    with_defaults: bool,
    as_json: bool,
) -> int:
    """Show keys with their values, the source of each value, and the value that would apply without it."""
    resources = _resources(topic_names, broker_ids, broker_defaults)
    with open_admin(bootstrap) as admin:
        unknown = _unknown(admin, resources)
        known = [resource for resource in resources if resource not in unknown]
        described, failed = split_outcomes(
            lambda: admin.describe_configs(known, with_synonyms=True, with_documentation=as_json)
        )
    shown = {
        resource: [entry for entry in entries if with_defaults or entry.source != ConfigSource.DEFAULT_CONFIG]
        for resource, entries in described.items()
    }
    if as_json:
        print_json([_as_object(resource, entries) for resource, entries in shown.items()])
    else:
        for index, (resource, entries) in enumerate(shown.items()):
            if index:
                click.echo()
            _print_entries(resource, entries)
    for problem in [*unknown.values(), *(worded(error) for error in failed.values())]:
        fail(problem)
    return 1 if unknown or failed else 0


def _print_entries(resource: ConfigResource, entries: list[ConfigEntry]) -> None:
    print_table(
        ("KEY", "VALUE", "SOURCE", "READ-ONLY", "OTHERWISE"),
        [
            (
                entry.name,
                "hidden" if entry.is_sensitive else entry.value,
                entry.source.name,
                entry.is_read_only,
                " ".join(
                    f"{synonym.source.name}:{synonym.name}={'hidden' if entry.is_sensitive else synonym.value}"
                    for synonym in entry.synonyms[1:]  # the first is the value itself
                ),
            )
            for entry in entries
        ],
        title=f"{resource}:",
    )


def _as_object(resource: ConfigResource, entries: list[ConfigEntry]) -> dict[str, object]:
    return {
        "type": resource.type.name.lower(),
        "name": resource.name or None,
        "configs": [
            {
                "name": entry.name,
                "value": entry.value,
                "source": entry.source.name,
                "type": entry.type.name,
                "read_only": entry.is_read_only,
                "sensitive": entry.is_sensitive,
                "synonyms": [
                    {"name": synonym.name, "value": synonym.value, "source": synonym.source.name}
                    for synonym in entry.synonyms
                ],
                "documentation": entry.documentation,
            }
            for entry in entries
        ],
    }


@configs.command("alter")
@bootstrap_option
@_resource_options
@click.option("--set", "set_words", multiple=True, metavar="KEY=VALUE", help="Set a key; may be repeated.")
@click.option("--unset", "unset_keys", multiple=True, metavar="KEY", help="Remove a key; may be repeated.")
@click.option("--append", "append_words", multiple=True, metavar="KEY=VALUE", help="Add to a list; may be repeated.")
@click.option(
    "--subtract", "subtract_words", multiple=True, metavar="KEY=VALUE", help="Remove from a list; may be repeated."
)
@click.option("--validate-only", is_flag=True, help="Only ask the cluster whether it would do this.")
def alter_command(
    bootstrap: str,
    topic_names: tuple[str, ...],
    broker_ids: tuple[int, ...],
    broker_defaults: bool,
    set_words: tuple[str, ...],
    unset_keys: tuple[str, ...],
    append_words: tuple[str, ...],
    subtract_words: tuple[str, ...],
    validate_only: bool,
) -> int:
    """Change the given keys; all others stay as they are."""
    resources = _resources(topic_names, broker_ids, broker_defaults)
    changes = [ConfigChange(key, AlterKind.SET, value) for key, value in parse_pairs(set_words, option="--set")]
    changes += [ConfigChange(key, AlterKind.DELETE) for key in dict.fromkeys(unset_keys)]
    changes += [ConfigChange(key, AlterKind.APPEND, v) for key, v in parse_pairs(append_words, option="--append")]
    changes += [ConfigChange(key, AlterKind.SUBTRACT, v) for key, v in parse_pairs(subtract_words, option="--subtract")]
    keys = [change.name for change in changes]
    if not changes:
        raise click.UsageError("say what to alter: --set, --unset, --append or --subtract")
    if len(set(keys)) < len(keys):
        raise click.UsageError("a key can be altered in one way at a time")
    with open_admin(bootstrap) as admin:
        unknown = _unknown(admin, resources)
        wanted = {resource: changes for resource in resources if resource not in unknown}
        if wanted and resources[0].type == ResourceType.BROKER:
            _warn_of_keys_without_effect(admin, next(iter(wanted)), keys)
        failed = failures_of(lambda: admin.alter_configs(wanted, validate_only=validate_only))
        problems = list(unknown.values())
        if failed:
            known = _known_keys(admin, next(iter(failed)))
            problems += [worded_with_keys(error, keys, known) for error in failed.values()]
    for resource in [resource for resource in wanted if resource not in failed]:
        click.echo(f"{'would alter' if validate_only else 'altered'} {resource}: {_changes_text(changes)}")
    for problem in problems:
        fail(problem)
    return 1 if problems else 0


def _warn_of_keys_without_effect(admin: Admin, resource: ConfigResource, keys: list[str]) -> None:
    """A broker may store unknown keys, as Kafka does for plug-ins, and so takes mistyped ones without an error."""
    known = _known_keys(admin, resource)
    for key in keys:
        if known and key not in known and not key.startswith("listener.name."):
            say(f"note: the broker names no key {key}{nearest(key, known)}")


def _known_keys(admin: Admin, resource: ConfigResource) -> list[str]:
    """The keys that the broker has for such a resource, for the hint after a refusal."""
    if resource.type == ResourceType.BROKER and not resource.name:
        resource = broker_resource(min(admin.brokers()))  # the defaults name only what is set
    entries, _ = split_outcomes(lambda: admin.describe_configs([resource]))
    return [entry.name for entry in entries.get(resource, ())]


def _changes_text(changes: list[ConfigChange]) -> str:
    words = {
        AlterKind.SET: "{0.name}={0.value}",
        AlterKind.DELETE: "{0.name} unset",
        AlterKind.APPEND: "{0.name} with {0.value}",
        AlterKind.SUBTRACT: "{0.name} without {0.value}",
    }
    return ", ".join(words[change.kind].format(change) for change in changes)
