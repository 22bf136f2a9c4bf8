"""confluent-kafka (librdkafka) as a judge, in what is its own; what every client does is in tests/scenarios."""

import uuid
from collections.abc import Callable
from contextlib import closing

import pytest
from confluent_kafka import KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.processes import BrokerProcess
from tests.scenarios.clients_confluent import CONFLUENT
from tests.scenarios.messages import SOME_TIME_MS, all_kinds
from tests.scenarios.reading import take

pytestmark = pytest.mark.process


def new_topic(broker: BrokerProcess) -> str:
    name = f"confluent-{uuid.uuid4().hex[:8]}"
    CONFLUENT.administrator(broker.address).create(name, 1, {})
    return name


def test_admin_lists_offsets_of_every_kind(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker)
    sent = all_kinds(10)
    with closing(CONFLUENT.writer(shared_broker.address)) as writer:
        writer.send(topic, [*sent[5:], *sent[:5]])  # the newest in the middle
    admin = AdminClient({"bootstrap.servers": shared_broker.address})
    partition = TopicPartition(topic, 0)
    for spec, offset in (
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 10),
        (OffsetSpec.max_timestamp(), 4),
        (OffsetSpec.for_timestamp(SOME_TIME_MS + 3000), 0),
    ):
        assert admin.list_offsets({partition: spec})[partition].result(60).offset == offset


def test_all_records_are_deleted_and_none_beyond_the_end(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker)
    with closing(CONFLUENT.writer(shared_broker.address)) as writer:
        writer.send(topic, all_kinds(30))
    with closing(CONFLUENT.administrator(shared_broker.address)) as administrator:
        assert administrator.delete_records(topic, 0, before=-1) == 30
        with pytest.raises(KafkaException, match="OFFSET_OUT_OF_RANGE"):
            administrator.delete_records(topic, 0, before=31)


def test_idempotent_producer_through_kills_writes_each_record_once_and_in_order(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()
    topic = new_topic(broker)
    producer = Producer(
        {
            "bootstrap.servers": broker.address,
            "enable.idempotence": True,
            "linger.ms": 5,
            "reconnect.backoff.max.ms": 100,
            "batch.num.messages": 20,
        }
    )
    failures: list[object] = []

    def on_delivery(error: object, _: Message) -> None:
        if error is not None:
            failures.append(error)

    count = 3000
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0, on_delivery=on_delivery)
        producer.poll(0)
        if number in (1000, 2000):
            broker.kill()
            broker.start()
    assert producer.flush(60) == 0
    assert failures == []
    with closing(CONFLUENT.reader(broker.address, topic)) as reader:
        values = [record.message.value for record in take(reader, count)]
    assert values == [b"%d" % number for number in range(count)]


def test_no_bug_was_met(shared_broker: BrokerProcess) -> None:
    assert "Traceback" not in shared_broker.log
