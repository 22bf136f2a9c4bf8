"""The keys of Apache Kafka 4.3: each is served, or refused by name with a reason."""

import pytest

from ottla.core.config.broker_keys import BROKER_DEFINITION
from ottla.core.config.definition import DynamicMode
from ottla.core.config.kafka_keys import TOPIC_KEYS_NOT_SERVED
from ottla.core.config.topic_keys import TOPIC_DEFINITION
from ottla.core.config.values import ConfigType
from tests.core.kafka_4_3_keys import BROKER_KEYS, DYNAMIC_BROKER_KEYS, TOPIC_KEYS

# A list here and a text in Kafka: one form on the wire, but here items can be appended.
LISTS_HERE = {"listener.security.protocol.map", "max.connections.per.ip.overrides"}


@pytest.mark.parametrize("name", [name for names in TOPIC_KEYS.values() for name in names.split()])
def test_every_topic_key_of_kafka_is_served_or_refused_with_a_reason(name: str) -> None:
    assert name in TOPIC_DEFINITION.keys or TOPIC_KEYS_NOT_SERVED[name]


def test_a_refused_topic_key_says_why() -> None:
    (problem,) = TOPIC_DEFINITION.parse({"remote.storage.enable": "true"}).problems
    assert problem == "known to Kafka, not served by Ottla: remote.storage.enable (there is no tiered storage)"


def test_every_broker_key_of_kafka_is_known() -> None:
    names = [name for names in BROKER_KEYS.values() for name in names.split()]
    assert len(names) == 340
    unknown = [
        name for name in names if name not in BROKER_DEFINITION.keys and not BROKER_DEFINITION.is_known_to_kafka(name)
    ]
    assert unknown == []


def test_served_keys_have_kafkas_types() -> None:
    for definition, by_type in ((TOPIC_DEFINITION, TOPIC_KEYS), (BROKER_DEFINITION, BROKER_KEYS)):
        for type_name, names in by_type.items():
            for name in names.split():
                key = definition.keys.get(name)
                if key is not None and name not in LISTS_HERE:
                    assert key.type is ConfigType[type_name], name


def test_no_key_can_change_here_that_is_fixed_in_kafka() -> None:
    ours = {name for name, key in BROKER_DEFINITION.keys.items() if key.dynamic is not DynamicMode.READ_ONLY}
    assert ours <= set(DYNAMIC_BROKER_KEYS.split())
