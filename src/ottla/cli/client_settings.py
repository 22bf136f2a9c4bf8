"""Settings of the clients on the command line: `-X name=value`, with Kafka's names or librdkafka's.

Checks all of them before the command contacts a broker.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import click

from ottla.cli.options import CLIENT_ID
from ottla.clients.config import ClientConfig, ClientDefinition
from ottla.core.config.definition import ConfigError

# Names that kcat's users type, where Kafka's own clients have another one.
_LIBRDKAFKA_NAMES: Final = {
    "request.required.acks": "acks",
    "compression.codec": "compression.type",
    "queue.buffering.max.ms": "linger.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.timeout.ms": "delivery.timeout.ms",
    "message.max.bytes": "max.request.size",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "metadata.broker.list": "bootstrap.servers",
}


def pairs_of(values: Sequence[str], option: str) -> dict[str, str]:
    """`name=value`, any number of times; a value may hold further equals signs."""
    pairs = {}
    for text in values:
        name, found, value = text.partition("=")
        if not found or not name:
            raise click.BadParameter(f"{text!r} is not name=value", param_hint=option)
        pairs[name] = value
    return pairs


def client_settings(
    definition: ClientDefinition,
    bootstrap: str,
    given: Sequence[str],
    *,
    chosen: Mapping[str, object],
    owned: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """The command's own settings with those of `-X`, checked; for `owned` keys the error says what to do instead."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "client.id": CLIENT_ID}
    settings.update((name, value) for name, value in chosen.items() if value is not None)
    for name, text in pairs_of(given, "-X").items():
        known = _LIBRDKAFKA_NAMES.get(name, name)
        reason = "the brokers are named with -b HOST:PORT" if known == "bootstrap.servers" else owned.get(known)
        if reason is not None:
            raise click.UsageError(f"-X {name}: {reason}")
        settings[known] = text
    try:
        ClientConfig.parse(definition, settings)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    return settings
