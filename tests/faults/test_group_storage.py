"""Groups on a disk that fails or was left in the middle of a write: whose commits are hit is told, others go on."""

import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.coordinator.group.coordinator import partition_of_group
from ottla.core.cluster import OFFSETS_TOPIC
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.records.header import iter_headers
from tests.group_wire import RawMember, commit, committed, find_coordinator, rebalance
from tests.processes import BrokerProcess
from tests.raw_wire import RawClient

pytestmark = pytest.mark.process

NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
OFFSETS_PARTITIONS = 4
FILE_BYTES_MAX = 1024 * 1024
LONG_TEXT = "x" * 4096

SETTINGS = ("group.initial.rebalance.delay.ms=0", f"offsets.topic.num.partitions={OFFSETS_PARTITIONS}")


@pytest.fixture
def limited_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Two log directories, and no file may grow beyond a megabyte: the write fails as on a full disk."""
    broker = BrokerProcess(
        tmp_path / "data",
        *SETTINGS,
        f"log.dirs={tmp_path / 'first'},{tmp_path / 'second'}",
        f"ottla.coordination.path={tmp_path}/store.sqlite",
    )

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # an error of the call instead of a signal
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))

    broker.before_exec = limit
    yield broker.start()
    broker.close()


def partition_of(group_id: str) -> int:
    return partition_of_group(group_id, partition_count=OFFSETS_PARTITIONS)


def group_in(index: int) -> str:
    """A group that is kept in a certain partition."""
    return next(name for name in map(str, range(1000)) if partition_of(name) == index)


def test_group_whose_partition_can_not_be_written_is_refused_and_the_others_go_on(
    limited_broker: BrokerProcess, tmp_path: Path
) -> None:
    broker = limited_broker
    with RawClient(broker.port) as client:
        assert client.create_topic("orders") == 0
        find_coordinator(client, "any")
        in_first = [(tmp_path / "first" / f"{OFFSETS_TOPIC}-{index}").is_dir() for index in range(OFFSETS_PARTITIONS)]
        assert sorted(in_first) == [False, False, True, True]  # spread over both
        doomed, other = group_in(in_first.index(True)), group_in(in_first.index(False))
        with RawMember(broker.port, doomed) as victim, RawMember(broker.port, other) as member:
            for reader in (victim, member):
                rebalance(reader)
            last = 0
            while (error_code := victim.commit("orders", last + 1, text=LONG_TEXT)) == 0:
                last += 1
                assert last < 1000
            assert error_code in (NOT_AVAILABLE, NOT_COORDINATOR)
            assert last > 200
            # From now on nobody is its coordinator, until the next start.
            assert victim.commit("orders", last + 1) == NOT_AVAILABLE
            assert victim.heartbeat() == NOT_AVAILABLE
            assert victim.ask_join().error_code == NOT_AVAILABLE
            found = client.ask(FindCoordinatorRequest(key=doomed), 3, FindCoordinatorResponse)
            assert found.error_code == NOT_AVAILABLE
            # Those in the other directory don't notice.
            assert member.heartbeat() == 0
            assert member.commit("orders", 5) == 0
            assert committed(client, other) == {("orders", 0): 5}
            with RawMember(broker.port, other) as newcomer:
                rebalance(member, newcomer)
    assert "is offline" in broker.log
    assert "Traceback" not in broker.log
    broker.stop()
    broker.before_exec = None  # there is room again
    broker.start()
    with RawClient(broker.port) as client:
        for group_id, offset in ((doomed, last), (other, 5)):
            find_coordinator(client, group_id)
            assert committed(client, group_id) == {("orders", 0): offset}
            assert commit(client, group_id, "orders", 1) == 25  # the members of the last generation have their time
    assert "Traceback" not in broker.log


@pytest.mark.parametrize("damage", ["cut", "noise behind", "zeros behind", "half a batch behind", "bit flipped"])
def test_torn_end_of_the_offsets_costs_at_most_the_commit_that_was_being_written(
    start_broker: Callable[..., BrokerProcess], damage: str
) -> None:
    broker = start_broker(*SETTINGS)
    group_id = group_in(2)
    with RawClient(broker.port) as client:
        assert client.create_topic("orders", partitions=3) == 0
        find_coordinator(client, group_id)
        for offset in range(1, 30):
            for partition in range(3):
                assert commit(client, group_id, "orders", offset, partition=partition) == 0
    broker.kill()
    (path,) = broker.partition_dir(OFFSETS_TOPIC, 2).glob("*.log")
    data = bytearray(path.read_bytes())
    data = data[: _end_of_batches(data)]
    is_last_hit = damage in ("cut", "bit flipped")
    if damage == "cut":
        del data[-5:]
    elif damage == "noise behind":
        data += b"\x13" * 200
    elif damage == "zeros behind":
        data += bytes(5000)
    elif damage == "half a batch behind":
        data += data[:40]
    else:
        data[-3] ^= 1
    path.write_bytes(data)
    broker.start()
    with RawClient(broker.port) as client:
        find_coordinator(client, group_id)
        expected = {("orders", partition): 29 for partition in range(3)}
        if is_last_hit:
            expected["orders", 2] = 28
        assert committed(client, group_id) == expected
        assert commit(client, group_id, "orders", 30) == 0
    broker.kill()
    broker.start()
    with RawClient(broker.port) as client:
        find_coordinator(client, group_id)
        assert committed(client, group_id) == expected | {("orders", 0): 30}
    assert "Traceback" not in broker.log


def _end_of_batches(data: bytearray) -> int:
    end = 0
    for position, header in iter_headers(bytes(data), allow_partial_tail=True):
        end = position + header.batch_length + 12
    return end


# The header's length and magic, what the checksum does not cover, what it does.
CUT_AT, UNHARMED_AT, LEFT_OUT_AT = (8, 16), (12,), (17, 30, 61, 70)


@pytest.mark.parametrize("position", [*CUT_AT, *UNHARMED_AT, *LEFT_OUT_AT])
def test_bit_flip_in_the_middle_of_the_offsets_is_told_and_harms_no_more_than_it_must(
    start_broker: Callable[..., BrokerProcess], position: int
) -> None:
    broker = start_broker(*SETTINGS)
    with RawClient(broker.port) as client:
        assert client.create_topic("orders") == 0
        names = [name for name in map(str, range(100)) if partition_of(name) == 2][:9]
        find_coordinator(client, names[0])
        for group_id in names:
            assert commit(client, group_id, "orders", 7) == 0
    broker.stop()
    (path,) = broker.partition_dir(OFFSETS_TOPIC, 2).glob("*.log")
    data = bytearray(path.read_bytes())
    starts = [start for start, _ in iter_headers(bytes(data), allow_partial_tail=True)]
    data[starts[4] + position] ^= 0x40
    path.write_bytes(data)
    broker.start()
    with RawClient(broker.port) as client:
        find_coordinator(client, names[0])
        left = [group_id for group_id in names if committed(client, group_id)]
        if position in CUT_AT:  # nobody knows where the next batch would begin
            assert left == names[:4]
            assert f"{OFFSETS_TOPIC}-2: cut at offset " in broker.log
        elif position in UNHARMED_AT:
            assert left == names
        else:
            assert left == names[:4] + names[5:]
            assert f"{OFFSETS_TOPIC}-2: the batch at offset 4 is left out" in broker.log
        assert all(commit(client, group_id, "orders", 8) == 0 for group_id in names)
    assert "Traceback" not in broker.log
