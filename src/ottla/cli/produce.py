"""`ottla produce`: lines, files or JSON lines to a topic, with kcat's flags and the option names of Kafka's tool."""

import os
from typing import Final

import click

from ottla.cli.client_settings import client_settings, pairs_of
from ottla.cli.escapes import unescape
from ottla.cli.options import bootstrap_option, open_admin
from ottla.cli.produce_input import LineRules, line_parser, rules_with_properties
from ottla.cli.production import Job, Production
from ottla.cli.record_json import parse_json_record
from ottla.cli.topic_lookup import count_partitions_or_create
from ottla.clients.producer.keys import PRODUCER_DEFINITION
from ottla.clients.producer.producer import Producer
from ottla.records.compression import NAMES

# As much as the producer's memory holds: the broker decides what is too large for a topic.
_RECORD_BYTES_MAX: Final = 32 * 1024 * 1024
_OWNED: Final = {
    "key.serializer": "keys are the bytes of the input",
    "value.serializer": "values are the bytes of the input",
    "transactional.id": "messages are not sent in transactions",
}


@click.command("produce")
@bootstrap_option
@click.option("-t", "--topic", help="Send to this topic; with -J each line may name its own.")
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(min=-1),
    help="Send to this partition. Default: by the key, else a partition per batch.",
)
@click.option(
    "-K", "--key-delimiter", metavar="DELIM", help=r"Messages are KEY DELIM VALUE; \t and other escapes work."
)
@click.option("-D", "--delimiter", metavar="DELIM", default=r"\n", help="Separates messages. Default: a new line.")
@click.option("-k", "--key", help="Send every message with this key.")
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="Add a header to every message; may be repeated.",
)
@click.option("-Z", "--null", "is_empty_null", is_flag=True, help="Send empty keys and values as null.")
@click.option("-J", "--json-lines", "is_json", is_flag=True, help="Read JSON lines, as `ottla consume -J` prints them.")
@click.option(
    "-l", "--lines", "by_lines", is_flag=True, help="Send each line of a FILE, not the whole FILE, as a message."
)
@click.option("-c", "--count", type=click.IntRange(min=1), metavar="N", help="Stop after N messages.")
@click.option(
    "-z", "--compression-codec", "--compression-type", "codec", type=click.Choice(NAMES), help="Default: none."
)
@click.option("-a", "--acks", "--request-required-acks", "acks", help="all (the default), 1 or 0.")
@click.option(
    "-X", "--producer-property", "--command-property", "settings", multiple=True, metavar="NAME=VALUE",
    help="A setting of the producer, such as linger.ms=50.",
)  # fmt: skip
@click.option(
    "--property", "--reader-property", "properties", multiple=True, metavar="NAME=VALUE",
    help="A property of Kafka's console producer, such as parse.key=true.",
)  # fmt: skip
@click.option("-v", "--verbose", is_flag=True, help="Report at the end what was sent.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, readable=True))
def produce(
    bootstrap: str,
    topic: str | None,
    partition: int | None,
    key_delimiter: str | None,
    delimiter: str,
    key: str | None,
    headers: tuple[str, ...],
    is_empty_null: bool,
    is_json: bool,
    by_lines: bool,
    count: int | None,
    codec: str | None,
    acks: str | None,
    settings: tuple[str, ...],
    properties: tuple[str, ...],
    verbose: bool,
    quiet: bool,
    files: tuple[str, ...],
) -> int:
    """Send stdin, or FILES, to a topic.

    Each line of stdin is a message; an empty line is an empty message. Each FILE is one message; with -l or -J each of
    its lines is one. The exit code is 1 if any message was not stored; the lines that failed are listed.
    """
    if topic is None and not is_json:
        raise click.UsageError("a topic is needed: -t TOPIC")
    try:
        rules = LineRules(
            key_delimiter=None if key_delimiter is None else unescape(key_delimiter),
            is_empty_null=is_empty_null,
            key=None if key is None else os.fsencode(key),
            headers=tuple(_header(text) for text in headers),
        )
        rules = rules_with_properties(rules, pairs_of(properties, "--property"))
        if not unescape(delimiter) or rules.key_delimiter == b"":
            raise ValueError("a delimiter has at least one character")
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    chosen = {"compression.type": codec, "acks": acks, "max.request.size": _RECORD_BYTES_MAX}
    client = client_settings(PRODUCER_DEFINITION, bootstrap, settings, chosen=chosen, owned=_OWNED)
    job = Job(
        topic=topic,
        partition=None if partition == -1 else partition,
        parse=parse_json_record if is_json else line_parser(rules),
        limit=count,
        delimiter=unescape(delimiter),
    )
    whole_files = bool(files) and not by_lines and not is_json
    with open_admin(bootstrap) as admin:
        producer = Producer(client)
        try:
            production = Production(producer, job, lambda name: count_partitions_or_create(producer, admin, name))
            if topic is not None:
                production.check_partition(topic)
            return production.run(files, whole_files=whole_files, with_progress=not quiet, verbose=verbose)
        finally:
            producer.close(timeout_ms=0)  # what is left then was waited for already


def _header(text: str) -> tuple[str, bytes | None]:
    name, found, value = text.partition("=")
    if not name:
        raise ValueError(f"header {text!r} has no name")
    return name, os.fsencode(value) if found else None
