"""`KEY=VALUE` arguments, and hints about keys that no broker knows."""

from collections.abc import Iterable

import click

from ottla.cli.failures import nearest, worded
from ottla.clients.errors import BrokerError
from ottla.core.errors import ErrorCode


def parse_pairs(words: Iterable[str], *, option: str) -> list[tuple[str, str]]:
    """In the order of the command line; a key may come once."""
    pairs: dict[str, str] = {}
    for word in words:
        key, separator, value = word.partition("=")
        key = key.strip()
        if not separator or not key:
            raise click.UsageError(f"{option} {word}: expected KEY=VALUE")
        if key in pairs:
            raise click.UsageError(f"{option} {word}: {key} is given twice")
        pairs[key] = value
    return list(pairs.items())


def known_topic_keys() -> set[str]:
    """Kafka's names of all topic keys, whether or not our broker serves them."""
    from ottla.core.config.kafka_keys import TOPIC_KEYS_NOT_SERVED  # late: only a failure needs them
    from ottla.core.config.topic_keys import TOPIC_DEFINITION

    return {*TOPIC_DEFINITION.keys, *TOPIC_KEYS_NOT_SERVED}


def worded_with_keys(error: BrokerError, keys: Iterable[str], known: Iterable[str]) -> str:
    """The failure, and for a refused configuration the nearest name to each unknown key."""
    text = worded(error)
    if error.error_code not in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST):
        return text
    known_names = set(known)
    for key in keys:
        if key not in known_names:
            hint = nearest(key, known_names)
            if hint and hint not in text:
                text += hint if key in text else f"; {key}{hint.removeprefix(';')}"
    return text
