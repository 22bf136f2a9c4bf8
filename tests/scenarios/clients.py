"""The clients that the scenarios run with, and who of them can do what a scenario needs."""

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest

from tests.scenarios.clients_aiokafka import AIOKAFKA
from tests.scenarios.clients_confluent import CONFLUENT
from tests.scenarios.clients_kafka_python import KAFKA_PYTHON
from tests.scenarios.clients_ottla import OTTLA, OTTLA_AIO
from tests.scenarios.port import Ability, Client

CLIENTS: list[Client] = [OTTLA, OTTLA_AIO, CONFLUENT, KAFKA_PYTHON, AIOKAFKA]


def with_clients(*abilities: Ability, assignor: str | None = None) -> pytest.MarkDecorator:
    """Run a scenario once with each client that can do all of this."""
    able = [
        client
        for client in CLIENTS
        if client.abilities.issuperset(abilities) and (assignor is None or assignor in client.assignors)
    ]
    return pytest.mark.parametrize("client", [pytest.param(client, id=client.name) for client in able])


def with_each_assignor(assignors: Iterable[str]) -> pytest.MarkDecorator:
    """Run a scenario with each client and each of these assignors that it speaks."""
    pairs: list[Any] = [
        pytest.param(client, assignor, id=f"{client.name}-{assignor}")
        for client, assignor in product(CLIENTS, assignors)
        if assignor in client.assignors
    ]
    return pytest.mark.parametrize(("client", "assignor"), pairs)
