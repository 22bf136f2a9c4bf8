"""`ottla produce`: lines, files or JSON lines into a topic, in the flags of kcat and the names of Kafka's own tool."""

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

# As much as the producer's memory holds: what is too large for a topic is its broker's to say.
_RECORD_BYTES_MAX: Final = 32 * 1024 * 1024
_OWNED: Final = {
    "key.serializer": "keys are the bytes of the input",
    "value.serializer": "values are the bytes of the input",
    "transactional.id": "messages are not sent in transactions",
}


@click.command("produce")
@bootstrap_option
@click.option("-t", "--topic", help="Where to; with -J the lines may say it.")
@click.option("-p", "--partition", type=click.IntRange(min=-1), help="Into this one; else by key, or by batches.")
@click.option("-K", "--key-delimiter", metavar="DELIM", help=r"Each message is KEY, this, VALUE; \t and the like work.")
@click.option("-D", "--delimiter", metavar="DELIM", default=r"\n", help="Between messages. Default: a new line.")
@click.option("-k", "--key", help="The key of all messages.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Added to each; may be repeated.")
@click.option("-Z", "--null", "is_empty_null", is_flag=True, help="Empty keys and values are sent as null.")
@click.option("-J", "--json-lines", "is_json", is_flag=True, help="Messages are JSON as `ottla consume -J` prints it.")
@click.option("-l", "--lines", "by_lines", is_flag=True, help="Each line of a FILE is a message, not the whole FILE.")
@click.option("-c", "--count", type=click.IntRange(min=1), metavar="N", help="Stop after so many messages.")
@click.option(
    "-z", "--compression-codec", "--compression-type", "codec", type=click.Choice(NAMES), help="Default: none."
)
@click.option("-a", "--acks", "--request-required-acks", "acks", help="all (the default), 1 or 0.")
@click.option(
    "-X", "--producer-property", "--command-property", "settings", multiple=True, metavar="NAME=VALUE",
    help="A setting of Kafka's producer, such as linger.ms=50.",
)  # fmt: skip
@click.option(
    "--property", "--reader-property", "properties", multiple=True, metavar="NAME=VALUE",
    help="A property of the console producer's lines, such as parse.key=true.",
)  # fmt: skip
@click.option("-v", "--verbose", is_flag=True, help="Say at the end what was sent.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
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
    """Send what comes in on stdin, or FILES, to a topic.

    Each line is a message; an empty one is an empty message. Each FILE is one message, unless -l or -J says that its
    lines are. Exit code 1 when any message was not stored, with the lines that failed.
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
