"""`ottla pipeline redrive`: sends dead letters back to their topics; without --execute it only shows them."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.failures import nearest
from ottla.cli.options import json_option, worded_failures
from ottla.cli.output import number, print_json, print_table, progress, say
from ottla.cli.pipeline_options import bootstrap_option, extras_installed
from ottla.pipeline.topics import TOPIC_NAMES

if TYPE_CHECKING:
    from ottla.pipeline.dead_letters.redrive import Summary

_SUFFIX: Final = ".dlq"


def moment_ms(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """A time as `2025-09-01T12:00:00Z`, in UTC unless it says otherwise, or milliseconds since 1970."""
    if value is None:
        return None
    if value.isdecimal() and len(value) > 8:
        return int(value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a time such as 2025-09-01 or 2025-09-01T12:00:00Z") from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def chosen_topics(given: str | None) -> tuple[str, ...]:
    """The named topics of the app; all if none is named."""
    if given is None:
        return TOPIC_NAMES
    names = tuple(dict.fromkeys(name.strip().removesuffix(_SUFFIX) for name in given.split(",") if name.strip()))
    for name in names:
        if name not in TOPIC_NAMES:
            raise click.UsageError(f"no topic {name}{nearest(name, TOPIC_NAMES)}; there are {', '.join(TOPIC_NAMES)}")
    return names


@click.command("redrive")
@bootstrap_option
@click.option("--topics", metavar="TOPIC,…", help="Dead letters of these topics. Default: all.")
@click.option("--error-class", "classes", metavar="CLASS,…", help="Only dead letters with these error classes.")
@click.option(
    "--since", "since_ms", callback=moment_ms, metavar="TIME", help="Only dead letters of this time or later."
)
@click.option("--until", "until_ms", callback=moment_ms, metavar="TIME", help="Only dead letters before this time.")
@click.option("--execute", is_flag=True, help="Send them. Without it, only show what would be sent.")
@json_option
def redrive(
    bootstrap: str,
    topics: str | None,
    classes: str | None,
    since_ms: int | None,
    until_ms: int | None,
    execute: bool,
    as_json: bool,
) -> None:
    """Send dead letters back to their topics, each once, with their original key, value and headers."""
    wanted = chosen_topics(topics)
    with extras_installed():
        from ottla.pipeline.dead_letters.redrive import Choice, RedriveFailed
        from ottla.pipeline.dead_letters.redrive import redrive as send_back
        from ottla.pipeline.dead_letters.redrive_progress import TooManyRanges
        from ottla.pipeline.events.event_decoding import ERROR_CLASSES
    chosen = None if classes is None else frozenset(name.strip() for name in classes.split(","))
    for name in sorted(chosen or ()):
        if name not in ERROR_CLASSES:
            raise click.UsageError(
                f"no error class {name}{nearest(name, ERROR_CLASSES)}; there are {', '.join(ERROR_CLASSES)}"
            )
    choice = Choice(wanted, chosen, since_ms, until_ms)
    try:
        with worded_failures():
            looked = send_back(bootstrap, choice, execute=False)
            if execute and looked.letters:
                with progress("dead letters", looked.letters) as on_sent:
                    looked = send_back(bootstrap, choice, execute=True, on_sent=on_sent)
    except (RedriveFailed, TooManyRanges) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json(
            {"sent": execute, "letters": looked.letters, "by_class": _rows(looked), "strangers": looked.strangers}
        )
    else:
        _print(looked, execute)


def _rows(summary: "Summary") -> list[dict[str, object]]:
    return [
        {"topic": topic, "error_class": error_class, "letters": count, "reasons": summary.common_reasons(kind)}
        for kind in sorted(summary.counts)
        for (topic, error_class), count in [(kind, summary.counts[kind])]
    ]


def _print(summary: "Summary", execute: bool) -> None:
    heads = ("topic", "error class", number("dead letters"), "most common reason")
    rows = [(*kind, summary.counts[kind], summary.common_reasons(kind)[0]) for kind in sorted(summary.counts)]
    if rows:
        print_table(heads, rows)
    if summary.strangers:
        say(f"{summary.strangers:,} records of the dead-letter topics are not from the pipeline; they stay as they are")
    letters = f"{summary.letters:,} dead letter{'' if summary.letters == 1 else 's'}"
    if not summary.letters:
        say("there are no dead letters to send back")
    elif execute:
        say(f"{letters} sent back to {'its topic' if summary.letters == 1 else 'their topics'}")
        if summary.without_headers:
            say(f"{summary.without_headers:,} of them without headers: their original records are gone")
    else:
        say(f"{letters} would be sent back; add --execute to send {'it' if summary.letters == 1 else 'them'}")
