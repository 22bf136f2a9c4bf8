"""What a broker counts, on simulated ports, and the text that is made of it."""

from typing import Any

import pytest
from prometheus_client import parser
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics import parser as openmetrics_parser

from ottla.broker.metrics.definitions import METRICS, PROCESS_METRICS
from ottla.broker.metrics.exposition import render
from ottla.broker.metrics.measured_ports import FlushMetrics, MeasuredFlushes, MeasuredStore
from ottla.broker.metrics.requests import UNKNOWN_API, ApiMetrics
from ottla.broker.metrics.snapshot import Snapshot, SnapshotTaker, Sources
from ottla.broker.states import BrokerState
from ottla.coordination.store import Code
from ottla.core.errors import ErrorCode, ProtocolViolation, StorageError
from ottla.core.exchange import Deferred
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.broker.conftest import MakeRig
from tests.broker.rig import Rig, at
from tests.storage.hand_driven import HandBackground, HandLoop
from tests.storage.log_making import batch

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class Facts:
    """What the exporter asks a broker."""

    broker_id = 1
    cluster_id = "cluster-a"
    state = BrokerState.RUNNING
    is_accepting = True
    fatal_reason: str | None = None


class Metered:
    """A rig that measures."""

    def __init__(self, make_rig: MakeRig, **options: Any) -> None:
        self.sources = Sources()
        self.rig: Rig = make_rig(metrics=self.sources, **options)

    def api(self, key: int) -> ApiMetrics:
        return self.sources.requests.by_api[key]

    def snapshot(self) -> Snapshot:
        return take(self.sources)

    def samples(self, *, accept: str = "", with_partitions: bool = True) -> dict[tuple[str, ...], float]:
        """(name, label values in the order of their names) -> value."""
        return {
            (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
            for family in parsed(self.snapshot(), accept=accept, with_partitions=with_partitions)
            for sample in family.samples
        }


def take(sources: Sources) -> Snapshot:
    loop = HandLoop()
    taken: list[Snapshot] = []
    SnapshotTaker(sources, taken.append, loop.call_soon).start()
    while not taken:
        loop.turn()
    return taken[0]


def parsed(snapshot: Snapshot, *, accept: str = "", with_partitions: bool = True) -> list[Family]:
    body, content_type = render(snapshot, Facts(), uptime_s=1.5, accept=accept, with_partitions=with_partitions)
    if accept:
        assert content_type.startswith("application/openmetrics-text")
        return list(openmetrics_parser.text_string_to_metric_families(body.decode()))
    assert content_type.startswith("text/plain")
    return list(parser.text_string_to_metric_families(body.decode()))


@pytest.fixture
def metered(make_rig: MakeRig) -> Metered:
    return Metered(make_rig)


def test_requests_are_counted_when_they_are_answered(metered: Metered) -> None:
    metered.rig.create_topic()
    metered.rig.produce(batch(b"a"))
    metered.rig.produce(batch(b"b"))
    produce = metered.api(ApiKey.PRODUCE)
    assert (produce.started, produce.durations.count, produce.waiting) == (2, 2, 0)
    assert produce.durations.sum_ns > 0


def test_a_fetch_that_waits_is_in_flight_until_its_answer(metered: Metered) -> None:
    metered.rig.create_topic()
    waiting = metered.rig.send_fetch(at(0), max_wait_ms=500)
    assert isinstance(waiting, Deferred)
    assert waiting.holds
    fetch = metered.api(ApiKey.FETCH)
    assert (fetch.started, fetch.durations.count, fetch.waiting) == (1, 0, 1)
    metered.rig.produce(batch(b"a"))
    metered.rig.turn()
    assert waiting.is_complete
    assert waiting.answer is not None
    assert (fetch.started, fetch.durations.count, fetch.waiting) == (1, 1, 0)


def test_a_peer_that_goes_ends_its_wait_and_is_counted(metered: Metered) -> None:
    metered.rig.create_topic()
    waiting = metered.rig.send_fetch(at(0), max_wait_ms=500)
    assert isinstance(waiting, Deferred)
    waiting.abandon()
    fetch = metered.api(ApiKey.FETCH)
    assert (fetch.started, fetch.waiting, fetch.abandoned) == (1, 0, 1)
    assert metered.rig.fetches.delayed == 0


def test_requests_that_close_their_connection_are_counted(metered: Metered) -> None:
    with pytest.raises(ProtocolViolation):
        metered.rig.send(b"\0\0\0\x0a\0\0\0\x09\0\0\0\1\0\0")
    with pytest.raises(ProtocolViolation):
        metered.rig.send(b"\0\0\0\x0a\x7f\x7f\0\0\0\0\0\1\xff\xff")
    assert metered.api(ApiKey.PRODUCE).failed == 1
    assert metered.api(UNKNOWN_API).failed == 1
    assert metered.samples()["ottla_requests_total", "unknown"] == 1


def test_a_failure_of_a_deferred_answer_reaches_the_connection(metered: Metered) -> None:
    metered.rig.create_topic(compression_type="gzip")
    records = bytearray(batch(b"x" * 40_000))
    records[-1] ^= 0xFF  # found on the thread; with acks=0 closing is the only way to tell
    deferred = metered.rig.send_produce(("orders", 0, records), acks=0)
    assert isinstance(deferred, Deferred)
    metered.rig.background.run_all()
    assert isinstance(deferred.failure, ProtocolViolation)
    assert metered.api(ApiKey.PRODUCE).failed == 1
    assert metered.api(ApiKey.PRODUCE).waiting == 0


def test_error_codes_are_counted_by_api(metered: Metered) -> None:
    rig = metered.rig
    rig.create_topic()
    rig.produce(batch(b"a"), index=9)
    rig.fetch(at(5))
    rig.fetch(at(0, index=9))
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    rig.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 5)
    rig.ask(
        MetadataRequest(topics=[MetadataRequestTopic(name="a b")], allow_auto_topic_creation=False), MetadataResponse, 8
    )
    samples = metered.samples()
    for api, error in (
        ("Produce", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("Fetch", "OFFSET_OUT_OF_RANGE"),
        ("Fetch", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("CreateTopics", "TOPIC_ALREADY_EXISTS"),
        ("Metadata", "INVALID_TOPIC_EXCEPTION"),
    ):
        assert samples["ottla_request_errors_total", api, error] == 1


def test_traffic_is_counted_by_topic(metered: Metered) -> None:
    rig = metered.rig
    rig.create_topic("orders", 2)
    rig.create_topic("idle")
    first = batch(b"a", b"b")
    rig.produce(first)
    rig.produce(batch(b"c"), index=1)
    rig.fetch(at(0))
    rig.fetch(at(0))
    rig.fetch((rig.cache.topics["orders"].topic_id, at(0)[1]), version=13)
    samples = metered.samples()
    assert samples["ottla_topic_messages_in_total", "orders"] == 3
    assert samples["ottla_topic_bytes_in_total", "orders"] == len(first) + len(batch(b"c"))
    assert samples["ottla_topic_bytes_out_total", "orders"] == 3 * len(first)
    assert samples["ottla_topic_partitions", "orders"] == 2
    assert samples["ottla_topic_messages_in_total", "idle"] == 0
    assert samples["ottla_partition_log_end_offset", "0", "orders"] == 2
    assert samples["ottla_partition_high_watermark", "1", "orders"] == 1


def test_bytes_in_do_not_shrink_when_old_segments_go(metered: Metered) -> None:
    rig = metered.rig
    rig.create_topic(segment_bytes="1048576", retention_bytes="0")
    for _ in range(3):
        rig.produce(batch(b"x" * 900_000))
    before = metered.samples()["ottla_topic_bytes_in_total", "orders"]
    rig.log_manager.delete_expired(rig.now_ms)
    samples = metered.samples()
    assert samples["ottla_topic_size_bytes", "orders"] < before
    assert samples["ottla_topic_bytes_in_total", "orders"] == before


def test_counters_begin_at_zero_with_logs_that_were_loaded(make_rig: MakeRig) -> None:
    first = Metered(make_rig)
    first.rig.create_topic()
    first.rig.produce(batch(b"a", b"b"))
    log = first.rig.partition().log
    first.rig.log_manager.shutdown(first.rig.now_ms)
    again = make_rig(disk=first.rig.disk)
    loaded = again.log_manager.logs()[0]
    assert loaded.figures()[0] == log.figures()[0] == 2
    assert loaded.figures()[4:] == (0, 0)


def test_a_deleted_topic_takes_its_counters_with_it(metered: Metered) -> None:
    rig = metered.rig
    rig.create_topic()
    rig.produce(batch(b"a"))
    rig.fetch(at(0))
    rig.pump.call(rig.topics.delete, "orders")
    assert not [key for key in metered.samples() if "orders" in key]
    assert not metered.sources.requests.bytes_out_by_topic


def test_offline_partitions_are_told(make_rig: MakeRig) -> None:
    metered = Metered(make_rig, directories=("/data", "/more"))
    metered.rig.create_topic("orders", 2)
    metered.rig.log_manager.fail_dir("/more", "broken")
    samples = metered.samples()
    assert samples["ottla_partitions",] == 2
    assert samples["ottla_offline_partitions",] == 1
    assert samples["ottla_log_directories", "online"] == 1
    assert samples["ottla_log_directories", "offline"] == 1
    assert samples["ottla_log_directory_partitions", "/data"] == 1


def test_partitions_can_be_left_out(metered: Metered) -> None:
    metered.rig.create_topic()
    samples = metered.samples(with_partitions=False)
    assert not [key for key in samples if key[0].startswith("ottla_partition_")]
    assert samples["ottla_topic_partitions", "orders"] == 1


def test_a_snapshot_of_many_partitions_is_taken_in_pieces(metered: Metered) -> None:
    metered.rig.create_topic("many", 600)
    loop = HandLoop()
    taken: list[Snapshot] = []
    SnapshotTaker(metered.sources, taken.append, loop.call_soon).start()
    turns = 0
    while not taken:
        loop.turn()
        turns += 1
    assert turns == 3
    assert len(taken[0].partitions) == 600


def test_both_formats_say_the_same(metered: Metered) -> None:
    metered.rig.create_topic()
    metered.rig.produce(batch(b"a"))
    metered.rig.produce(batch(b"a"), index=9)
    changing = ("ottla_scrape", "process_", "python_")
    plain = {key: value for key, value in metered.samples().items() if not key[0].startswith(changing)}
    newer = {key: value for key, value in metered.samples(accept=OPENMETRICS).items() if key in plain}
    assert newer == plain


def test_a_broker_that_just_starts_can_be_scraped() -> None:
    names = {family.name for family in parsed(take(Sources()))}
    assert "ottla_broker_state" in names
    assert "ottla_partitions" not in names


def test_every_family_is_defined_with_its_kind_and_labels(metered: Metered) -> None:
    metered.rig.create_topic()
    metered.rig.produce(batch(b"a"), index=9)
    defined = {metric.name: metric for metric in (*METRICS, *PROCESS_METRICS)}
    for family in parsed(metered.snapshot(), accept=OPENMETRICS):
        assert family.type == defined[family.name].kind, family.name
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(defined[family.name].labels), sample


def test_labels_are_escaped(metered: Metered) -> None:
    snapshot = metered.snapshot()
    snapshot.offline_directories = []
    snapshot.online_directories = ['/a"b\\c\nd']
    samples = [sample for family in parsed(snapshot) for sample in family.samples]
    assert [sample.labels for sample in samples if sample.name == "ottla_log_directory_size_bytes"] == [
        {"directory": '/a"b\\c\nd'}
    ]


def test_flushes_are_measured() -> None:
    background = HandBackground()
    metrics = FlushMetrics()
    flushes = MeasuredFlushes(background, metrics)
    told: list[tuple[Any, BaseException | None]] = []

    def fail() -> None:
        raise StorageError("fsync failed")

    flushes.submit(lambda: "done", lambda result, error: told.append((result, error)))
    flushes.submit(fail, lambda result, error: told.append((result, error)))
    background.run_all()
    assert told[0] == ("done", None)
    assert isinstance(told[1][1], StorageError)
    assert (metrics.durations.count, metrics.failed) == (1, 1)


def test_operations_of_the_store_are_measured(metered: Metered) -> None:
    pump = metered.rig.pump
    store = MeasuredStore(pump.store)
    pump.call(lambda on_done: store.create("/measured", b"1", on_done))
    pump.call(lambda on_done: store.get("/measured", on_done))
    pump.call(lambda on_done: store.get("/nowhere", on_done))
    assert store.operations["create"].by_code == {Code.OK: 1}
    assert store.operations["get"].by_code == {Code.OK: 1, Code.NO_NODE: 1}
    assert store.operations["get"].durations.count == 2


def test_errors_of_later_answers_are_counted(metered: Metered) -> None:
    # CreateTopics answers when the store has: the code is seen where the answer is sent.
    topic = CreatableTopic(name="late", num_partitions=0, replication_factor=1)
    metered.rig.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 5)
    assert metered.api(ApiKey.CREATE_TOPICS).errors.by_code == {ErrorCode.INVALID_PARTITIONS: 1}
