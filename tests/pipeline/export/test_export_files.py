"""What a worker of an export writes, on Arrow batches without Spark."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.columns.schema import RECORD_SCHEMA
from ottla.pipeline.events.parsing import ParsingRules
from ottla.pipeline.events.payloads import PayloadWriter, ReadCounters, read_payloads
from ottla.pipeline.export.export_files import FILES, DayRange, ExportTask, export_schema
from ottla.pipeline.settings import Settings
from ottla.pipeline.topics import LOGIN

DAY_MS = 86_400_000
FIRST_MS = 20_332 * DAY_MS  # 2025-09-01
ALL = DayRange(None, None)


def login(offset: int, *, day: int = 0, partition: int = 0) -> dict[str, Any]:
    event = {"event_id": f"e{partition}-{offset}", "event_type": "login", "schema_version": 1, "device_id": "d"}
    event |= {"event_time": FIRST_MS + day * DAY_MS, "account_id": "a", "phone": "+8613800000000", "login_kind": "sms"}
    return record(offset, json.dumps(event).encode(), partition=partition)


def record(offset: int, value: bytes, *, partition: int = 0) -> dict[str, Any]:
    row = {"key": b"d", "value": value, "topic": LOGIN.name, "partition": partition, "offset": offset}
    return row | {"timestamp": (FIRST_MS + 9 * DAY_MS) * 1000, "timestampType": 0}


def run(
    folder: Path, rows: list[dict[str, Any]], *, days: DayRange = ALL, is_by_day: bool = True
) -> list[dict[str, Any]]:
    """The files that a task reports."""
    return run_counting(folder, rows, days=days, is_by_day=is_by_day)[0]


def run_counting(
    folder: Path, rows: list[dict[str, Any]], *, days: DayRange = ALL, is_by_day: bool = True
) -> tuple[list[dict[str, Any]], ReadCounters]:
    rules = ParsingRules.of(Settings())
    task = ExportTask(folder, rules, now_ms=FIRST_MS + 10 * DAY_MS, days=days, is_by_day=is_by_day)
    batches = [
        pa.RecordBatch.from_pylist(rows[start : start + 2], schema=RECORD_SCHEMA) for start in range(0, len(rows), 2)
    ]
    (files,), counters = read_payloads(pa.Table.from_batches(PayloadWriter(task)(batches)), [FILES])
    return files.to_pylist(), counters


def offsets_of(file: dict[str, Any]) -> list[int]:
    found: list[int] = pq.read_table(file["path"], partitioning=None).column("offset").to_pylist()
    return found


def test_each_day_of_a_partition_has_a_file(tmp_path: Path) -> None:
    files = run(tmp_path, [login(0), login(1, day=1), login(2), login(3, day=1), login(0, partition=1)])

    offsets = {(file["partition"], file["day"]): offsets_of(file) for file in files}
    assert offsets == {(0, "2025-09-01"): [0, 2], (0, "2025-09-02"): [1, 3], (1, "2025-09-01"): [0]}
    assert [(file["first_offset"], file["last_offset"], file["rows"]) for file in files[:2]] == [(0, 2, 2), (1, 3, 2)]


def test_by_offsets_a_partition_has_one_file(tmp_path: Path) -> None:
    (file,) = run(tmp_path, [login(0), login(1, day=1), login(2)], is_by_day=False)

    assert (file["day"], offsets_of(file)) == (None, [0, 1, 2])


@pytest.mark.parametrize("is_by_day", [True, False])
def test_days_that_were_not_asked_for_are_left_out(tmp_path: Path, is_by_day: bool) -> None:
    rows = [login(number, day=number) for number in range(4)]
    files = run(tmp_path, rows, days=DayRange("2025-09-02", "2025-09-03"), is_by_day=is_by_day)

    assert sorted(offset for file in files for offset in offsets_of(file)) == [1, 2]


def test_records_that_are_no_sound_events_are_counted(tmp_path: Path) -> None:
    files, counters = run_counting(tmp_path, [record(0, b"{"), login(1), record(2, b"")])

    assert counters.dead == {"not_json": 2}
    assert counters.rows_read == 3
    assert [offsets_of(file) for file in files] == [[1]]


def test_a_task_without_sound_events_writes_no_file_and_counts_them(tmp_path: Path) -> None:
    files, counters = run_counting(tmp_path, [record(0, b"{")])

    assert files == []
    assert counters.dead == {"not_json": 1}
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_phones_are_hashed(tmp_path: Path) -> None:
    (file,) = run(tmp_path, [login(0)])

    assert pq.read_schema(file["path"]).names == export_schema(LOGIN.name).names
    assert "13800000000" not in str(pq.read_table(file["path"], partitioning=None).to_pylist())


def test_a_task_that_fails_leaves_no_file(tmp_path: Path) -> None:
    task = ExportTask(tmp_path, ParsingRules.of(Settings()), now_ms=FIRST_MS + 10 * DAY_MS, days=ALL, is_by_day=True)

    def batches() -> Any:
        yield pa.RecordBatch.from_pylist([login(0)], schema=RECORD_SCHEMA)
        raise ConnectionError("the broker is gone")

    with pytest.raises(ConnectionError):
        list(task(batches()))
    assert list(tmp_path.iterdir()) == []
