"""Redrive against a real broker: letters go back as they were, each once, and only those that were chosen."""

from collections.abc import Iterable
from typing import NamedTuple

import pytest

from ottla import Admin, Consumer, NewTopic, Producer, TopicPartition
from ottla.pipeline.dead_letters.origin_headers import stretches
from ottla.pipeline.dead_letters.redrive import Choice, Summary, redrive
from ottla.pipeline.dead_letters.redrive_progress import group_of
from tests.processes import BrokerProcess

pytestmark = pytest.mark.process

Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]


class Letters(NamedTuple):
    """A topic with dead letters of some of its records."""

    bootstrap: str
    topic: str

    def die(self, offset: int, error_class: str, *, at_ms: int, key: bytes = b"k", value: bytes | None = None) -> None:
        headers = {"origin_topic": self.topic, "origin_partition": "0", "origin_offset": str(offset)}
        headers |= {"origin_timestamp_ms": "5", "error_class": error_class, "error_reason": f"{error_class} it is"}
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            producer.send(
                f"{self.topic}.dlq",
                value if value is not None else b"v%d" % offset,
                key=key,
                headers=[(name, text.encode()) for name, text in headers.items()],
                timestamp_ms=at_ms,
            ).result()

    def redrive(self, *, execute: bool = True, classes: Iterable[str] | None = None, **times: int) -> Summary:
        chosen = None if classes is None else frozenset(classes)
        return redrive(self.bootstrap, Choice((self.topic,), chosen, **times), execute=execute)

    def records(self) -> list[Record]:
        """What is on the topic, after the three records that it began with."""
        topic_partition = TopicPartition(self.topic, 0)
        with Consumer(bootstrap_servers=self.bootstrap) as consumer:
            consumer.assign([topic_partition])
            consumer.seek(topic_partition, 3)
            end = consumer.end_offsets([topic_partition])[topic_partition]
            found: list[Record] = []
            while consumer.position(topic_partition) < end:
                found += [(each.key, each.value, list(each.headers)) for each in consumer.poll()]
        return found

    @property
    def values(self) -> list[bytes | None]:
        return [value for _, value, _ in self.records()]


@pytest.fixture
def letters(shared_broker: BrokerProcess, request: pytest.FixtureRequest) -> Letters:
    topic = request.node.name
    with Admin(bootstrap_servers=shared_broker.address) as admin:
        admin.create_topics([NewTopic(topic, 1), NewTopic(f"{topic}.dlq", 1)])
    with Producer(bootstrap_servers=shared_broker.address) as producer:
        for number in range(3):
            producer.send(topic, b"v%d" % number, key=b"k", headers=[("trace", b"t%d" % number)], partition=0).result()
    return Letters(shared_broker.address, topic)


def test_a_letter_goes_back_with_its_key_value_and_headers(letters: Letters) -> None:
    letters.die(1, "not_json", at_ms=1_000)

    summary = letters.redrive()

    assert letters.records() == [(b"k", b"v1", [("trace", b"t1")])]
    assert summary.counts == {(letters.topic, "not_json"): 1}
    assert summary.common_reasons((letters.topic, "not_json")) == ["not_json it is"]
    assert summary.without_headers == 0


def test_a_letter_whose_record_is_gone_goes_back_without_headers(letters: Letters) -> None:
    letters.die(77, "not_json", at_ms=1_000)
    letters.die(2, "not_json", at_ms=1_000, value=b"of an older topic of this name")

    assert letters.redrive().without_headers == 2
    assert [headers for _, _, headers in letters.records()] == [[], []]


def test_nothing_is_sent_or_remembered_without_execute(letters: Letters) -> None:
    letters.die(0, "not_json", at_ms=1_000)

    assert letters.redrive(execute=False).letters == 1
    assert letters.redrive(execute=False).letters == 1
    assert letters.records() == []


def test_each_letter_goes_back_once(letters: Letters) -> None:
    letters.die(0, "not_json", at_ms=1_000)
    assert letters.redrive().letters == 1
    assert letters.redrive().letters == 0

    letters.die(1, "not_json", at_ms=2_000)
    letters.die(2, "future", at_ms=2_000)
    assert letters.redrive().letters == 2
    assert letters.values == [b"v0", b"v1", b"v2"]


def test_a_letter_that_was_sent_twice_goes_back_once(letters: Letters) -> None:
    for at_ms in (1_000, 2_000):
        letters.die(0, "not_json", at_ms=at_ms)
    assert letters.redrive(execute=False).letters == 1
    assert letters.redrive().letters == 1

    letters.die(0, "not_json", at_ms=3_000)
    assert letters.redrive().letters == 0
    assert letters.values == [b"v0"]


def test_letters_are_chosen_by_class_and_the_others_stay(letters: Letters) -> None:
    for number, error_class in enumerate(("not_json", "future", "not_json")):
        letters.die(number, error_class, at_ms=1_000)

    assert letters.redrive(classes=["future"]).counts == {(letters.topic, "future"): 1}
    assert letters.redrive(classes=["future"]).letters == 0
    assert letters.redrive().counts == {(letters.topic, "not_json"): 2}
    assert letters.values == [b"v1", b"v0", b"v2"]


def test_letters_are_chosen_by_the_time_of_their_death(letters: Letters) -> None:
    for number in range(3):
        letters.die(number, "not_json", at_ms=1_000 * number)

    assert letters.redrive(since_ms=1_000, until_ms=2_000).letters == 1
    assert letters.redrive(since_ms=1_000).letters == 1
    assert letters.redrive().letters == 1
    assert letters.values == [b"v1", b"v2", b"v0"]


def test_a_lag_tool_sees_what_is_left(letters: Letters) -> None:
    letters.die(0, "not_json", at_ms=1_000)
    letters.die(1, "future", at_ms=1_000)
    letters.redrive(classes=["not_json"])

    with Admin(bootstrap_servers=letters.bootstrap) as admin:
        committed = admin.list_group_offsets(group_of("not_json"))
    assert committed[TopicPartition(f"{letters.topic}.dlq", 0)].offset == 2


def test_offsets_that_are_near_are_read_together() -> None:
    assert stretches([]) == []
    assert stretches([5, 6, 900, 50_000]) == [(5, 901), (50_000, 50_001)]


def test_records_that_are_no_letters_are_left_alone(letters: Letters) -> None:
    with Producer(bootstrap_servers=letters.bootstrap) as producer:
        producer.send(f"{letters.topic}.dlq", b"hello").result()

    summary = letters.redrive()

    assert (summary.letters, summary.strangers) == (0, 1)


def test_a_topic_without_dead_letters_is_no_failure(letters: Letters) -> None:
    assert redrive(letters.bootstrap, Choice(("ml_login_log",)), execute=True).letters == 0
