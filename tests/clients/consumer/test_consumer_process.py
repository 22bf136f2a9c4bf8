"""The blocking consumer on a real broker: reading, seeking, committing, rebalancing, and being used wrongly."""

import re
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ottla.clients.consumer.consumer import Consumer
from ottla.clients.consumer.errors import (
    CommitFailed,
    ConcurrentUse,
    DeserializationFailed,
    IllegalUse,
    NoOffsetForPartition,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
    WokenUp,
)
from ottla.clients.consumer.listener import RebalanceListener
from ottla.clients.consumer.values import ConsumerRecord, OffsetAndMetadata
from ottla.clients.errors import ClientClosed, ClientError, TimedOut
from ottla.core.config.definition import ConfigError
from ottla.core.types import TopicPartition
from tests.processes import BrokerProcess, eventually

pytestmark = pytest.mark.process

MakeTopic = Callable[..., str]


def consumer_of(broker: BrokerProcess, **settings: Any) -> Consumer:
    defaults: dict[str, Any] = {
        "bootstrap_servers": broker.address,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 50,
        "session_timeout_ms": 10_000,
        "fetch_max_wait_ms": 50,
        "retry_backoff_ms": 20,
    }
    return Consumer(**{**defaults, **settings})


def group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


def read(consumer: Consumer, count: int, *, within_s: float = 10.0) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    deadline = time.monotonic() + within_s
    while len(records) < count and time.monotonic() < deadline:
        records += consumer.poll(100)
    return records


class Diary(RebalanceListener):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, list[int]]] = []

    def on_partitions_assigned(self, topic_partitions: Sequence[TopicPartition]) -> None:
        self.lines.append(("assigned", sorted(topic_partition.partition for topic_partition in topic_partitions)))

    def on_partitions_revoked(self, topic_partitions: Sequence[TopicPartition]) -> None:
        self.lines.append(("revoked", sorted(topic_partition.partition for topic_partition in topic_partitions)))

    def on_partitions_lost(self, topic_partitions: Sequence[TopicPartition]) -> None:
        self.lines.append(("lost", sorted(topic_partition.partition for topic_partition in topic_partitions)))


def test_a_group_member_reads_everything_once_and_in_order(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(3, 300)
    with consumer_of(broker, group_id=group(), max_poll_records=7) as consumer:
        consumer.subscribe([topic])
        records = read(consumer, 300)
        assert consumer.poll(60) == []
        assert sorted((record.partition, record.offset) for record in records) == [
            (partition, offset) for partition in range(3) for offset in range(100)
        ]
        for partition in range(3):
            offsets = [record.offset for record in records if record.partition == partition]
            assert offsets == sorted(offsets)
        first = next(record for record in records if record.key == b"k0")
        assert (first.topic, first.value, first.headers) == (topic, b"v0", (("n", b"0"),))
        assert {consumer.lag(topic_partition) for topic_partition in consumer.assignment()} == {0}


def test_committed_offsets_are_where_the_next_member_goes_on(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic, name = make_topic(1, 10), group()
    topic_partition = TopicPartition(topic, 0)
    with consumer_of(broker, group_id=name, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        assert len(read(consumer, 10)) == 10
        consumer.commit({topic_partition: OffsetAndMetadata(4, "half way")})
        committed = consumer.committed([topic_partition])[topic_partition]
        assert committed is not None
        assert committed[:2] == (4, "half way")
    with consumer_of(broker, group_id=name) as consumer:
        consumer.subscribe([topic])
        assert [record.offset for record in read(consumer, 6)] == [4, 5, 6, 7, 8, 9]
    with consumer_of(broker, group_id=name) as consumer:  # closing committed what was read
        consumer.assign([topic_partition])
        assert consumer.position(topic_partition) == 10


def test_automatic_commits_cover_what_was_returned_before_the_last_poll(
    broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic(1, 10)
    topic_partition = TopicPartition(topic, 0)
    with consumer_of(broker, group_id=group(), auto_commit_interval_ms=0, max_poll_records=5) as consumer:
        consumer.subscribe([topic])
        while not consumer.poll(100):
            pass
        committed = consumer.committed([topic_partition])[topic_partition]
        assert committed is None or committed.offset == 0
        assert len(consumer.poll(1_000)) == 5
        committed = consumer.committed([topic_partition])[topic_partition]
        assert committed is not None
        assert committed.offset == 5


def test_commits_without_waiting_call_back_in_order(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(1, 5)
    topic_partition = TopicPartition(topic, 0)
    seen: list[tuple[int, ClientError | None]] = []
    with consumer_of(broker, group_id=group(), enable_auto_commit=False) as consumer:
        consumer.assign([topic_partition])
        for offset in range(1, 5):
            consumer.commit_async(
                {topic_partition: offset}, lambda offsets, error: seen.append((offsets[topic_partition].offset, error))
            )
        consumer.commit({topic_partition: 5})
        consumer.poll(0)
        assert seen == [(1, None), (2, None), (3, None), (4, None)]
        committed = consumer.committed([topic_partition])[topic_partition]
        assert committed is not None
        assert committed.offset == 5


def test_seeking_by_offset_end_beginning_and_time(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(1, 10, timestamp_ms=1_700_000_000_000)
    topic_partition = TopicPartition(topic, 0)
    with consumer_of(broker) as consumer:
        assert consumer.partitions_for(topic) == [topic_partition]
        consumer.assign([topic_partition])
        assert consumer.position(topic_partition) == 0
        consumer.seek(topic_partition, 7)
        assert [record.offset for record in read(consumer, 3)] == [7, 8, 9]
        consumer.seek_to_beginning()
        assert read(consumer, 10)[0].offset == 0
        consumer.seek_to_end(topic_partition)
        assert consumer.position(topic_partition) == 10
        consumer.seek_to_time(1_700_000_000_004)
        assert [record.offset for record in read(consumer, 6)] == [4, 5, 6, 7, 8, 9]
        consumer.seek_to_time(1_800_000_000_000)
        assert consumer.position(topic_partition) == 10
        assert consumer.beginning_offsets([topic_partition]) == {topic_partition: 0}
        assert consumer.end_offsets([topic_partition]) == {topic_partition: 10}
        found = consumer.offsets_for_times({topic_partition: 1_700_000_000_003})[topic_partition]
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (3, 1_700_000_000_003)


def test_paused_partitions_are_silent_and_lose_nothing(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(2, 20)
    topic_partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with consumer_of(broker, max_poll_records=3) as consumer:
        consumer.assign(topic_partitions)
        first = read(consumer, 1)
        paused = topic_partitions[first[0].partition]
        consumer.pause(paused)
        assert consumer.paused() == {paused}
        others = read(consumer, 10 + 7, within_s=0.5)
        assert {record.partition for record in others} == {1 - paused.partition}
        consumer.resume(paused)
        records = first + others + read(consumer, 20 - len(first) - len(others))
        assert sorted((record.partition, record.offset) for record in records) == [
            (partition, offset) for partition in range(2) for offset in range(10)
        ]


def test_members_share_partitions_and_take_over_when_one_leaves(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic, name = make_topic(4), group()
    diaries = [Diary(), Diary()]
    with consumer_of(broker, group_id=name, client_id="a", partition_assignment_strategy="range") as first:
        first.subscribe([topic], diaries[0])
        while len(first.assignment()) < 4:
            first.poll(20)
        second = consumer_of(broker, group_id=name, client_id="b", partition_assignment_strategy="range")
        second.subscribe([topic], diaries[1])
        while not (len(first.assignment()) == len(second.assignment()) == 2):
            first.poll(20)
            second.poll(20)
        second.close()
        while len(first.assignment()) < 4:
            first.poll(20)
    assert diaries[0].lines == [
        ("assigned", [0, 1, 2, 3]),
        ("revoked", [0, 1, 2, 3]),
        ("assigned", [0, 1]),
        ("revoked", [0, 1]),
        ("assigned", [0, 1, 2, 3]),
        ("revoked", [0, 1, 2, 3]),
    ]
    assert diaries[1].lines == [("assigned", [2, 3]), ("revoked", [2, 3])]


def test_cooperative_members_keep_what_does_not_move(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic, name = make_topic(4), group()
    strategy = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    diaries = [Diary(), Diary()]
    with consumer_of(broker, group_id=name, partition_assignment_strategy=strategy) as first:
        first.subscribe([topic], diaries[0])
        while len(first.assignment()) < 4:
            first.poll(20)
        with consumer_of(broker, group_id=name, partition_assignment_strategy=strategy) as second:
            second.subscribe([topic], diaries[1])
            while not (len(first.assignment()) == len(second.assignment()) == 2):
                first.poll(20)
                second.poll(20)
            kept = sorted(topic_partition.partition for topic_partition in first.assignment())
            moved = sorted(topic_partition.partition for topic_partition in second.assignment())
            assert sorted(kept + moved) == [0, 1, 2, 3]
    told = [line for line in diaries[0].lines if line[1]]
    assert told[:2] == [("assigned", [0, 1, 2, 3]), ("revoked", moved)]
    assert ("revoked", [0, 1, 2, 3]) not in told
    assert [line for line in diaries[1].lines if line[1]] == [("assigned", moved), ("revoked", moved)]


def test_who_does_not_poll_loses_its_partitions_and_may_come_back(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic, name = make_topic(1, 3), group()
    diary = Diary()
    settings: dict[str, Any] = {"group_id": name, "max_poll_interval_ms": 300, "enable_auto_commit": False}
    with consumer_of(broker, **settings) as consumer:
        consumer.subscribe([topic], diary)
        assert len(read(consumer, 3)) == 3
        eventually(lambda: consumer.group_metadata().member_id == "")
        with pytest.raises(CommitFailed, match=r"max\.poll\.interval\.ms"):
            consumer.commit()
        assert len(read(consumer, 3)) == 3  # nothing was committed: from the beginning
        consumer.commit()
    assert diary.lines == [("assigned", [0]), ("lost", [0]), ("assigned", [0]), ("revoked", [0])]


def test_a_pattern_follows_topics_that_come_later(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    prefix = f"p{uuid.uuid4().hex[:6]}"
    first = make_topic(1, 2, prefix=prefix)
    with consumer_of(broker, group_id=group(), metadata_max_age_ms=100) as consumer:
        consumer.subscribe(re.compile(f"^{prefix}-"))
        assert len(read(consumer, 2)) == 2
        second = make_topic(1, 3, prefix=prefix)
        assert {record.topic for record in read(consumer, 3)} == {second}
        assert consumer.subscription() == {first, second}


def test_no_reset_raises_and_a_seek_mends_it(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(1, 3)
    topic_partition = TopicPartition(topic, 0)
    with consumer_of(broker, group_id=group(), auto_offset_reset="none") as consumer:
        consumer.assign([topic_partition])
        with pytest.raises(NoOffsetForPartition, match=str(topic_partition)):
            read(consumer, 1)
        consumer.seek(topic_partition, 99)
        with pytest.raises(OffsetOutOfRange) as caught:
            read(consumer, 1)
        assert caught.value.positions == {topic_partition: 99}
        consumer.seek(topic_partition, 2)
        assert [record.offset for record in read(consumer, 1)] == [2]


def test_an_unreadable_value_is_named_and_can_be_passed(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(1, 4)
    topic_partition = TopicPartition(topic, 0)

    def deserialize(data: bytes) -> int:
        if data == b"v2":
            raise ValueError("no number")
        return int(data[1:])

    with consumer_of(broker, value_deserializer=deserialize, key_deserializer=bytes.decode) as consumer:
        consumer.assign([topic_partition])
        records = read(consumer, 2)
        assert [(record.key, record.value) for record in records] == [("k0", 0), ("k1", 1)]
        with pytest.raises(DeserializationFailed, match="no number") as caught:
            consumer.poll(1_000)
        assert (caught.value.topic_partition, caught.value.offset) == (topic_partition, 2)
        assert consumer.position(topic_partition) == 2
        consumer.seek(topic_partition, 3)
        assert [record.value for record in read(consumer, 1)] == [3]


def test_use_from_a_second_thread_is_an_error(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(1)
    with consumer_of(broker) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        is_polling = threading.Event()

        def poll() -> None:
            is_polling.set()
            with pytest.raises(WokenUp):
                consumer.poll(30_000)

        thread = threading.Thread(target=poll)
        thread.start()
        is_polling.wait()
        eventually(lambda: consumer._core.is_polling)
        for call in (lambda: consumer.poll(0), consumer.close, lambda: consumer.seek(TopicPartition(topic, 0), 1)):
            with pytest.raises(ConcurrentUse):
                call()
        consumer.wakeup()
        thread.join(10)
        assert not thread.is_alive()


def test_calls_that_do_not_fit_are_refused(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(1)
    topic_partition = TopicPartition(topic, 0)
    with consumer_of(broker, group_id=group()) as consumer:
        with pytest.raises(IllegalUse, match="subscribe to topics or assign"):
            consumer.poll(0)
        consumer.assign([topic_partition])
        with pytest.raises(IllegalUse, match="unsubscribe first"):
            consumer.subscribe([topic])
        with pytest.raises(IllegalUse, match="not assigned"):
            consumer.seek(TopicPartition(topic, 1), 0)
        with pytest.raises(ValueError, match="be below 0"):
            consumer.seek(topic_partition, -1)
        consumer.unsubscribe()
        consumer.subscribe([topic])
    with pytest.raises(ClientClosed):
        consumer.poll(0)
    with consumer_of(broker) as consumer:
        with pytest.raises(IllegalUse, match=r"needs a group\.id"):
            consumer.subscribe([topic])
        with pytest.raises(IllegalUse, match=r"needs a group\.id"):
            consumer.commit()
        with pytest.raises(UnknownTopicOrPartition, match="no-such-topic"):
            consumer.end_offsets([TopicPartition("no-such-topic", 0)], timeout_ms=100)


def test_settings_are_checked_as_a_whole() -> None:
    with pytest.raises(ConfigError) as caught:
        Consumer({"grup.id": "x", "auto.offset.reset": "yesterday", "max.poll.records": 0})
    text = str(caught.value)
    assert "group.id" in text
    assert "by_duration" in text
    assert "max.poll.records" in text
    with pytest.raises(ConfigError, match="less than session"):
        Consumer(heartbeat_interval_ms=5, session_timeout_ms=5)
    with pytest.raises(ConfigError, match=r"no group\.id to commit for"):
        Consumer(enable_auto_commit=True)


def test_an_unreachable_cluster_is_told_in_bounded_time() -> None:
    started = time.monotonic()
    with Consumer(bootstrap_servers="127.0.0.1:1", group_id="g", enable_auto_commit=False) as consumer:
        consumer.subscribe(["t"])
        assert consumer.poll(50) == []
        with pytest.raises(TimedOut, match=r"127\.0\.0\.1:1"):
            consumer.committed([TopicPartition("t", 0)], timeout_ms=100)
    assert time.monotonic() - started < 8


def test_leaders_and_whether_the_cluster_answers_are_known(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic_partition = TopicPartition(make_topic(1, 3), 0)
    with consumer_of(broker) as consumer:
        assert consumer.leader_of(topic_partition) is None  # not asked for yet
        consumer.assign([topic_partition])
        assert len(read(consumer, 3)) == 3
        assert consumer.leader_of(topic_partition) == 1
        assert consumer.unreachable is None
    with Consumer(bootstrap_servers="127.0.0.1:1") as consumer:
        consumer.assign([topic_partition])
        eventually(lambda: consumer.poll(10) == [] and consumer.unreachable is not None)
        assert "127.0.0.1:1" in str(consumer.unreachable)
