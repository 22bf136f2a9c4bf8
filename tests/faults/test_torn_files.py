"""Files that were torn, damaged or lost while a broker was down cost only what was in them."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.records.header import iter_headers
from tests.faults.filled_logs import fill, segment_of, values_of
from tests.processes import BrokerProcess, eventually
from tests.raw_wire import EARLIEST, SOME_TIME_MS, RawClient, batch_of

pytestmark = pytest.mark.process

StartBroker = Callable[..., BrokerProcess]

TEARS: dict[str, Callable[[bytes, int], bytes]] = {
    "garbage-behind": lambda data, last: data + random.Random(1).randbytes(500),
    "zeros-behind": lambda data, last: data + bytes(5000),
    "half-a-header-behind": lambda data, last: data + data[last : last + 30],
    "half-a-batch-behind": lambda data, last: data + data[last:-10],
    "the-last-batch-twice": lambda data, last: data + data[last:],
    "cut-in-the-last-batch": lambda data, last: data[:-10],
    "cut-in-the-last-header": lambda data, last: data[: last + 20],
    "zeros-for-the-last-batch": lambda data, last: data[:last] + bytes(len(data) - last),
    "a-bit-flipped-in-the-last-batch": lambda data, last: data[:-5] + bytes([data[-5] ^ 4]) + data[-4:],
    "a-bit-flipped-in-the-last-length": lambda data, last: data[: last + 8] + b"\x40" + data[last + 9 :],
}


def test_torn_end_of_a_segment_is_cut_to_the_last_good_batch(start_broker: StartBroker) -> None:
    broker = start_broker()
    values: dict[str, list[bytes]] = {}
    for tear in TEARS:
        values[tear] = fill(broker, tear)
    broker.kill()
    sound: dict[str, bytes] = {}
    for tear, damage in TEARS.items():
        segment = segment_of(broker, tear)
        data = segment.read_bytes()
        last = [position for position, _ in iter_headers(data)][-1]
        torn = damage(data, last)
        segment.write_bytes(torn)
        if torn.startswith(data):
            sound[tear] = data
        else:
            sound[tear] = data[:last]
            del values[tear][-3:]
    broker.start()
    for tear in TEARS:
        assert values_of(broker.port, tear) == values[tear]
        assert segment_of(broker, tear).read_bytes() == sound[tear]
        assert f"{tear}-0: " in broker.log  # the loss is told
        with RawClient(broker.port) as client:
            assert client.produce(tear, batch_of(b"goes on")).base_offset == len(values[tear])
    broker.restart()
    for tear in TEARS:
        assert values_of(broker.port, tear) == [*values[tear], b"goes on"]
    assert "Traceback" not in broker.log


INDEX_DAMAGE: dict[str, Callable[[Path], object]] = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(random.Random(2).randbytes(57)),
    "zeros": lambda path: path.write_bytes(bytes(240)),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "entries-too-many": lambda path: path.write_bytes(path.read_bytes() + b"\x7f" * 24),
}


@pytest.mark.parametrize("is_clean", [True, False])
def test_damaged_indexes_are_rebuilt(start_broker: StartBroker, is_clean: bool) -> None:
    broker = start_broker()
    values = {
        damage: fill(broker, damage, count=40, segment_bytes="6000", index_interval_bytes="500")
        for damage in INDEX_DAMAGE
    }
    broker.stop() if is_clean else broker.kill()
    for damage, break_file in INDEX_DAMAGE.items():
        for suffix in ("index", "timeindex"):
            for path in broker.partition_dir(damage).glob(f"*.{suffix}"):
                break_file(path)
    broker.start()
    with RawClient(broker.port) as client:
        for damage in INDEX_DAMAGE:
            assert [record.value for record in client.read_all(damage)] == values[damage], damage
            for offset in range(0, 120, 7):
                assert client.read_all(damage, offset=offset)[0].value == values[damage][offset], damage
            for number in range(0, 40, 3):
                assert client.list_offset(damage, SOME_TIME_MS + number).offset == number * 3, damage
            assert client.produce(damage, batch_of(b"goes on")).base_offset == 120
    assert "Traceback" not in broker.log


CHECKPOINTS = [
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "leader-epoch-checkpoint",
    "partition.metadata",
]
CHECKPOINT_DAMAGE = {
    "gone": None,
    "empty": b"",
    "no text": b"\xff\xfe\x00\x01" * 5,
    "wrong count": b"0\n7\nchecked 0 30\n",
    "negative": b"0\n1\nchecked 0 -5\n",
    "too far": b"0\n1\nchecked 0 999999\n",
    "another version": b"9\n1\nchecked 0 30\n",
}


@pytest.mark.parametrize("is_clean", [True, False])
def test_malformed_checkpoints_never_hide_or_lose_records(start_broker: StartBroker, is_clean: bool) -> None:
    broker = start_broker("replica.high.watermark.checkpoint.interval.ms=10")
    values: list[bytes | None] = [*fill(broker, "checked", segment_bytes="2000")]
    for damage, contents in CHECKPOINT_DAMAGE.items():
        broker.stop() if is_clean else broker.kill()
        for name in CHECKPOINTS:
            if name == "log-start-offset-checkpoint" and damage == "too far":
                continue  # well-formed: deleted up to there is what it says
            for directory in (broker.data_dir, broker.partition_dir("checked")):
                path = directory / name
                if contents is None:
                    path.unlink(missing_ok=True)
                elif path.exists():
                    path.write_bytes(contents)
        broker.start()
        assert values_of(broker.port, "checked") == values, damage
        with RawClient(broker.port) as client:
            assert client.produce("checked", batch_of(damage.encode())).base_offset == len(values)
        values.append(damage.encode())
    broker.restart()
    assert values_of(broker.port, "checked") == values
    assert "Traceback" not in broker.log


def test_malformed_log_start_checkpoint_starts_at_the_first_segment_kept(start_broker: StartBroker) -> None:
    broker = start_broker("log.retention.check.interval.ms=20")
    values = fill(broker, "moved", segment_bytes="2000", file_delete_delay_ms="0", retention_ms="-1")
    with RawClient(broker.port) as client:
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(name="moved", partitions=[DeleteRecordsPartition(partition_index=0, offset=20)])
            ],
            timeout_ms=1000,
        )
        answer = client.ask(request, 2, DeleteRecordsResponse)
        assert answer.topics[0].partitions[0].low_watermark == 20
    first_segment = broker.partition_dir("moved") / f"{0:020}.log"
    eventually(lambda: not first_segment.exists())
    broker.restart()
    with RawClient(broker.port) as client:
        assert client.list_offset("moved", EARLIEST).offset == 20
    broker.stop()
    (broker.data_dir / "log-start-offset-checkpoint").write_bytes(b"torn")
    broker.start()
    with RawClient(broker.port) as client:
        start = client.list_offset("moved", EARLIEST).offset
    assert 0 < start <= 20  # the segments before are gone: never a silent 0
    assert values_of(broker.port, "moved", offset=start) == values[start:]
    assert "log-start-offset-checkpoint" in broker.log


def test_everything_but_the_segments_may_be_lost(start_broker: StartBroker) -> None:
    broker = start_broker()
    values = fill(broker, "bare", count=30, segment_bytes="3000")
    broker.kill()
    for path in broker.partition_dir("bare").iterdir():
        if path.suffix != ".log":
            path.unlink()
    for name in CHECKPOINTS:
        (broker.data_dir / name).unlink(missing_ok=True)
    broker.start()
    assert values_of(broker.port, "bare") == values
