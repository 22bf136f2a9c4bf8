"""Reading a slice: it ends by position, survives a broker that restarts, and names what is gone."""

from typing import Any

import pytest

from ottla import Admin, Producer, TopicPartition
from ottla.spark import reading
from ottla.spark.batch_reader import plan_batch
from ottla.spark.data_loss import DataLoss
from ottla.spark.log_view import ClusterNotReached, LogView, NothingToRead
from ottla.spark.options import ReadOptions, Use, parse_read_options
from ottla.spark.planning import LogSlice
from ottla.spark.reading import ReadStalled, read_slices
from ottla.spark.schema import spark_schema
from ottla.testing.broker import OttlaBroker
from tests.spark.rows import offsets_of, read_options

# One broker for all: each test has topics of its own.
pytestmark = [pytest.mark.process, pytest.mark.ottla(scope="session")]


def test_a_slice_has_its_offsets_and_no_others(ottla_broker: OttlaBroker, ottla_topic: str) -> None:
    ottla_broker.produce(ottla_topic, [f"v{number}" for number in range(100)])
    options = read_options(ottla_broker, subscribe=ottla_topic)
    batches = list(read_slices(options, [LogSlice(ottla_topic, 0, 10, 25)]))
    assert offsets_of(batches) == list(range(10, 25))
    assert batches[0].column("value")[0].as_py() == b"v10"
    assert offsets_of(read_slices(options, [LogSlice(ottla_topic, 0, 90, 100)])) == list(range(90, 100))
    assert offsets_of(read_slices(options, [LogSlice(ottla_topic, 0, 0, 1)])) == [0]


def test_slices_are_read_one_after_the_other(ottla_broker: OttlaBroker) -> None:
    topic = ottla_broker.create_topic("read-together", partitions=2)
    for partition in (0, 1):
        ottla_broker.produce(topic, [f"v{number}" for number in range(20)], partition=partition)
    options = read_options(ottla_broker, subscribe=topic)
    batches = list(read_slices(options, [LogSlice(topic, 0, 3, 5), LogSlice(topic, 1, 0, 2), LogSlice(topic, 0, 7, 9)]))
    assert [topic_partition for each in batches for topic_partition in each.column("partition").to_pylist()] == [
        0,
        0,
        1,
        1,
        0,
        0,
    ]
    assert offsets_of(batches) == [3, 4, 0, 1, 7, 8]


@pytest.mark.parametrize("with_headers", [False, True])
def test_batches_have_sparks_schema(ottla_broker: OttlaBroker, ottla_topic: str, with_headers: bool) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    with Producer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        producer.send(ottla_topic, b"a", headers=[("h", b"1"), ("n", None)])
        producer.send(ottla_topic, None, b"k")
    options = read_options(ottla_broker, subscribe=ottla_topic, includeHeaders=str(with_headers).lower())
    (batch,) = read_slices(options, [LogSlice(ottla_topic, 0, 0, 2)])
    assert batch.schema.equals(to_arrow_schema(spark_schema(with_headers=with_headers), timezone="UTC"))
    assert batch.column("value").to_pylist() == [b"a", None]
    assert batch.column("key").to_pylist() == [None, b"k"]
    if with_headers:
        headers = [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]
        assert batch.column("headers").to_pylist() == [headers, None]


def test_a_broker_that_restarts_is_waited_for(ottla_broker: OttlaBroker, ottla_topic: str) -> None:
    for _ in range(20):
        ottla_broker.produce(ottla_topic, ["x" * 100] * 50)
    options = read_options(ottla_broker, subscribe=ottla_topic, kafka__max__partition__fetch__bytes="8000")
    batches = read_slices(options, [LogSlice(ottla_topic, 0, 0, 1000)])
    seen = offsets_of([next(batches)])
    ottla_broker.restart(kill=True)
    seen += offsets_of(batches)
    assert seen == list(range(1000))
    # The connection of the worker process is used again, over another restart.
    ottla_broker.restart(kill=True)
    assert len(offsets_of(read_slices(options, [LogSlice(ottla_topic, 0, 0, 1000)]))) == 1000


def test_connections_that_break_are_made_anew(ottla_broker: OttlaBroker, ottla_topic: str) -> None:
    ottla_broker.produce(ottla_topic, ["x"] * 10)
    options = read_options(ottla_broker, subscribe=ottla_topic)
    ottla_broker.cut_next("fetch", 2, when="after")
    ottla_broker.fail_next("fetch", 1, "NOT_LEADER_OR_FOLLOWER")
    assert offsets_of(read_slices(options, [LogSlice(ottla_topic, 0, 0, 10)])) == list(range(10))


def test_offsets_that_aged_out_are_named_or_passed_over(ottla_broker: OttlaBroker, ottla_topic: str) -> None:
    ottla_broker.produce(ottla_topic, ["x"] * 10)
    with Admin(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(ottla_topic, 0): 4})
    piece = [LogSlice(ottla_topic, 0, 1, 10)]
    with pytest.raises(DataLoss, match=r"offsets 1 to 3 are gone, the log begins at 4.*failOnDataLoss"):
        list(read_slices(read_options(ottla_broker, subscribe=ottla_topic), piece))
    tolerant = read_options(ottla_broker, subscribe=ottla_topic, failOnDataLoss="false")
    assert offsets_of(read_slices(tolerant, piece)) == list(range(4, 10))
    assert offsets_of(read_slices(tolerant, [LogSlice(ottla_topic, 0, 1, 3)])) == []


def test_a_log_that_is_shorter_now_is_named(ottla_broker: OttlaBroker, ottla_topic: str) -> None:
    ottla_broker.produce(ottla_topic, ["x"] * 10)
    options = read_options(ottla_broker, subscribe=ottla_topic)
    with pytest.raises(DataLoss, match="offsets 20 to 29 are gone, the log ends at 10"):
        list(read_slices(options, [LogSlice(ottla_topic, 0, 20, 30)]))
    tolerant = read_options(ottla_broker, subscribe=ottla_topic, failOnDataLoss="false")
    assert offsets_of(read_slices(tolerant, [LogSlice(ottla_topic, 0, 20, 30)])) == []


def test_a_topic_that_is_deleted_or_made_anew_is_named(
    ottla_broker: OttlaBroker, ottla_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_SUSPICIOUS_MS", 0)
    monkeypatch.setattr(reading, "_POLL_MS", 50)
    ottla_broker.produce(ottla_topic, ["x"] * 10)
    options = read_options(ottla_broker, subscribe=ottla_topic)
    with LogView(options) as view:
        planned = plan_batch(view, options)
    ottla_broker.delete_topic(ottla_topic)
    with pytest.raises(DataLoss, match="offsets 0 to 9 are gone, the topic was deleted;"):
        list(read_slices(options, planned))
    ottla_broker.create_topic(ottla_topic)
    with pytest.raises(DataLoss, match="the topic was deleted and created again"):
        list(read_slices(options, planned))
    tolerant = read_options(ottla_broker, subscribe=ottla_topic, failOnDataLoss="false")
    assert list(read_slices(tolerant, planned)) == []


def test_what_never_comes_is_told_after_a_bound(
    ottla_broker: OttlaBroker, ottla_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_POLL_MS", 50)
    ottla_broker.produce(ottla_topic, ["x"] * 10)
    options = read_options(ottla_broker, subscribe=ottla_topic, kafkaConsumer__pollTimeoutMs="200")
    with pytest.raises(ReadStalled, match=r"nothing at offset 10 for \d+ ms .* 5 offsets .* the log goes to 10"):
        list(read_slices(options, [LogSlice(ottla_topic, 0, 10, 15)]))
    ottla_broker.stop()
    with pytest.raises(ReadStalled, match=r"nothing at offset 0 .*no answer from kafka\.bootstrap\.servers"):
        list(read_slices(options, [LogSlice(ottla_topic, 0, 0, 10)]))


# What a batch query is planned from.


def planned(options: ReadOptions) -> dict[str, tuple[int, int]]:
    with LogView(options) as view:
        return {str(each.topic_partition): (each.start, each.end) for each in plan_batch(view, options)}


def test_batches_are_planned_by_offsets_and_times(ottla_broker: OttlaBroker) -> None:
    topic = ottla_broker.create_topic("two", partitions=2)
    with Producer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(topic, b"v", partition=0, timestamp_ms=1_000 + number)
            producer.send(topic, b"v", partition=1, timestamp_ms=2_000 + number)

    def plan(**options: str) -> dict[str, tuple[int, int]]:
        return planned(read_options(ottla_broker, **({"subscribe": topic} | options)))

    assert plan() == {"two-0": (0, 10), "two-1": (0, 10)}
    explicit = plan(startingOffsets='{"two": {"0": 3, "1": -2}}', endingOffsets='{"two": {"0": 7, "1": -1}}')
    assert explicit == {"two-0": (3, 7), "two-1": (0, 10)}
    assert plan(startingTimestamp="1005") == {"two-0": (5, 10), "two-1": (0, 10)}
    assert plan(endingTimestamp="2003") == {"two-0": (0, 10), "two-1": (0, 3)}
    each = plan(startingOffsetsByTimestamp='{"two": {"0": 1002, "1": 2009}}')
    assert each == {"two-0": (2, 10), "two-1": (9, 10)}
    with pytest.raises(LookupError, match=r"no record at or after the starting time in two-0 \(from 2005 ms on\)"):
        plan(startingTimestamp="2005")
    assert plan(startingTimestamp="2005", startingOffsetsByTimestampStrategy="latest") == {"two-1": (5, 10)}
    with pytest.raises(ValueError, match="startingOffsets has none for two-1 and names two-7, which isn't read"):
        plan(startingOffsets='{"two": {"0": 3, "7": 1}}')
    with pytest.raises(ValueError, match="begins at offset 5 and ends before, at 2"):
        plan(startingOffsets='{"two": {"0": 5, "1": 0}}', endingOffsets='{"two": {"0": 2, "1": 3}}')
    with pytest.raises(DataLoss, match="offsets 0 to 99 were asked for, the log has 0 to 10"):
        plan(endingOffsets='{"two": {"0": 99, "1": 3}}')
    assert plan(endingOffsets='{"two": {"0": 99, "1": 3}}', failOnDataLoss="false")["two-0"] == (0, 10)


def test_subscriptions_by_pattern_and_by_partition(ottla_broker: OttlaBroker) -> None:
    # Names that no other test's topic holds: a pattern is found anywhere in a name, and the broker is shared.
    for name in ("patterned_a", "patterned_b", "apart"):
        ottla_broker.create_topic(name, partitions=2)
        ottla_broker.produce(name, ["v"], partition=1)

    assert planned(read_options(ottla_broker, subscribePattern="patterned_.")) == {
        "patterned_a-1": (0, 1),
        "patterned_b-1": (0, 1),
    }
    assert planned(read_options(ottla_broker, subscribePattern="rned_b")) == {"patterned_b-1": (0, 1)}, (
        "as Spark's own source"
    )
    assert planned(read_options(ottla_broker, subscribePattern="^patterned$")) == {}
    assert planned(read_options(ottla_broker, assign='{"apart": [1]}')) == {"apart-1": (0, 1)}
    with pytest.raises(NothingToRead, match="assign apart-1, apart-7: apart-7 doesn't exist"):
        planned(read_options(ottla_broker, assign='{"apart": [1, 7]}'))
    with pytest.raises(NothingToRead, match=r"subscribe patterned_a, nope: nope doesn't exist at .*create it"):
        planned(read_options(ottla_broker, subscribe="patterned_a,nope"))


def test_a_cluster_that_is_not_reached_is_named_in_time(ottla_broker: OttlaBroker) -> None:
    servers: dict[str, Any] = {"kafka.bootstrap.servers": ottla_broker.bootstrap_servers}
    ottla_broker.stop()
    options = parse_read_options(servers | {"subscribe": "a", "kafka.default.api.timeout.ms": "300"}, Use.BATCH)
    with pytest.raises(ClusterNotReached, match=r"no answer from kafka\.bootstrap\.servers=.* within 300 ms"):
        planned(options)
