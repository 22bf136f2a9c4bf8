"""Scenarios of positions: where a reader is, goes to, starts without a commit, and what was deleted before it."""

from contextlib import closing
from typing import Any

import pytest

from tests.scenarios.clients import with_clients
from tests.scenarios.conftest import MakeTopic
from tests.scenarios.messages import SOME_TIME_MS, all_kinds, numbered
from tests.scenarios.port import Client, Committed, Failure, Reading, Writing
from tests.scenarios.reading import first_that_comes, messages_of, take

pytestmark = pytest.mark.process


@with_clients()
def test_seek_goes_where_it_says(cluster: Any, make_topic: MakeTopic, segment_bytes: str, client: Client) -> None:
    topic = make_topic(segment_bytes=segment_bytes, index_interval_bytes="1000")
    sent = all_kinds(120)
    with (
        closing(client.writer(cluster.address)) as writer,
        closing(client.reader(cluster.address, topic)) as reader,
    ):
        for start in range(0, 120, 10):
            writer.send(topic, sent[start : start + 10])
        for offset in (119, 0, 60, 61, 13, 118):
            reader.seek(0, offset)
            (record,) = take(reader, 1)
            assert (record.offset, record.message) == (offset, sent[offset])
            assert reader.position(0) == offset + 1
        reader.seek_to_beginning(0)
        assert take(reader, 1)[0].offset == 0
        reader.seek_to_end(0)
        assert first_that_comes(reader, writer, topic).offset >= 120


@with_clients()
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_offsets_by_time_and_ends(cluster: Any, make_topic: MakeTopic, client: Client, codec: str) -> None:
    topic = make_topic()
    with closing(client.writer(cluster.address, Writing(codec=codec))) as writer:
        writer.send(topic, all_kinds(50))
    with closing(client.reader(cluster.address, topic)) as reader:
        for timestamp_ms, offset in (
            (0, 0),
            (SOME_TIME_MS, 0),
            (SOME_TIME_MS + 1, 1),
            (SOME_TIME_MS + 29_001, 30),
            (SOME_TIME_MS + 30_000, 30),
            (SOME_TIME_MS + 49_000, 49),
            (SOME_TIME_MS + 49_001, None),
        ):
            assert reader.offset_at(0, timestamp_ms) == offset
        assert reader.ends(0) == (0, 50)
        found = reader.offset_at(0, SOME_TIME_MS + 40_500)
        assert found is not None
        reader.seek(0, found)
        assert [record.offset for record in take(reader, 9)] == list(range(41, 50))


@with_clients()
def test_without_a_commit_the_reset_says_where_to_begin(
    cluster: Any, make_topic: MakeTopic, group: str, client: Client
) -> None:
    topic = make_topic()
    with closing(client.writer(cluster.address)) as writer:
        writer.send(topic, numbered(10))
        with closing(client.reader(cluster.address, topic, how=Reading(group=group, reset="earliest"))) as reader:
            assert take(reader, 1)[0].offset == 0
        with closing(client.reader(cluster.address, topic, how=Reading(group=group, reset="latest"))) as reader:
            assert first_that_comes(reader, writer, topic).offset >= 10


@with_clients()
def test_without_a_reset_the_reader_is_told(cluster: Any, make_topic: MakeTopic, group: str, client: Client) -> None:
    topic = make_topic()
    with closing(client.writer(cluster.address)) as writer:
        writer.send(topic, numbered(3))
    how = Reading(group=group, reset="none")
    kind, words = client.errors[Failure.READ_WITHOUT_OFFSET]
    with closing(client.reader(cluster.address, topic, how=how)) as reader:
        with pytest.raises(kind, match=words):
            take(reader, 1)
        reader.commit({0: Committed(1)})
    kind, words = client.errors[Failure.READ_OUT_OF_RANGE]
    with closing(client.reader(cluster.address, topic, how=how)) as reader:
        assert take(reader, 1)[0].offset == 1
        reader.seek(0, 99)
        with pytest.raises(kind, match=words):
            take(reader, 1)


@with_clients()
def test_paused_partitions_are_silent_and_lose_nothing(cluster: Any, make_topic: MakeTopic, client: Client) -> None:
    topic = make_topic(2)
    with (
        closing(client.writer(cluster.address)) as writer,
        closing(client.reader(cluster.address, topic, (0, 1))) as reader,
    ):
        for partition in (0, 1):
            writer.send(topic, numbered(3), partition=partition)
        take(reader, 6)
        reader.pause(0)
        for partition in (0, 1):
            writer.send(topic, numbered(10, start=3), partition=partition)
        while_paused = take(reader, 10)
        assert {record.partition for record in while_paused} == {1}
        reader.resume(0)
        assert [(record.partition, record.offset) for record in take(reader, 10)] == [(0, at) for at in range(3, 13)]


@with_clients()
def test_deleted_records_are_gone(cluster: Any, make_topic: MakeTopic, client: Client) -> None:
    topic = make_topic()
    sent = all_kinds(30)
    with closing(client.writer(cluster.address)) as writer:
        writer.send(topic, sent)
    with closing(client.administrator(cluster.address)) as administrator:
        assert administrator.delete_records(topic, 0, before=12) == 12
    with closing(client.reader(cluster.address, topic)) as reader:
        assert reader.ends(0) == (12, 30)
        reader.seek(0, 3)  # out of range now: reset to the earliest
        assert messages_of(take(reader, 18)) == sent[12:]
