"""The transaction index: bytes as Kafka's, what a reader of a range has to skip, truncation."""

import struct

from ottla.storage.open_files import OpenFiles
from ottla.storage.txn_index import AbortedTransaction, TransactionIndex
from ottla.testing.simulated_disk import SimulatedDisk

_PATH = "/00000000000000000000.txnindex"


def _filled(disk: SimulatedDisk) -> TransactionIndex:
    index = TransactionIndex(_PATH, open_files=OpenFiles(disk), file_bytes=0)
    index.append(AbortedTransaction(1, 0, 10, 0))
    index.append(AbortedTransaction(2, 5, 20, 11))
    index.append(AbortedTransaction(3, 30, 40, 30))
    return index


def test_an_entry_has_34_bytes() -> None:
    disk = SimulatedDisk()
    _filled(disk)
    assert disk.read(_PATH)[:34] == struct.pack(">hqqqq", 0, 1, 0, 10, 0)


def test_no_file_is_made_before_something_is_aborted() -> None:
    disk = SimulatedDisk()
    index = TransactionIndex(_PATH, open_files=OpenFiles(disk), file_bytes=0)
    assert index.collect(0, end_offset=100) == ([], False)
    index.truncate_to(0)
    assert not disk.exists(_PATH)


def test_collect_gives_the_transactions_that_reach_into_a_range() -> None:
    index = _filled(SimulatedDisk())
    assert [aborted.producer_id for aborted in index.collect(12, end_offset=35)[0]] == [2, 3]
    found, is_complete = index.collect(0, end_offset=6)
    assert [aborted.producer_id for aborted in found] == [1, 2]
    assert is_complete


def test_truncate_drops_transactions_that_ended_at_or_after_the_offset() -> None:
    disk = SimulatedDisk()
    index = _filled(disk)
    index.truncate_to(20)
    assert [aborted.producer_id for aborted in index.entries()] == [1]
    assert len(disk.read(_PATH)) == 34


def test_half_an_entry_at_the_end_is_left_out() -> None:
    disk = SimulatedDisk()
    _filled(disk)
    index = TransactionIndex(_PATH, open_files=OpenFiles(disk), file_bytes=34 * 3 - 5)
    assert len(index.entries()) == 2
