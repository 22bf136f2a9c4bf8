"""The Parquet files of the embedded store: names, merging, indexes, other writers, and readers of other makers."""

from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from ottla.pipeline.stores.embedded import parquet_files
from ottla.pipeline.stores.embedded.log_tables import LogTables
from ottla.pipeline.stores.embedded.merging import MERGED_FILES, choose
from ottla.pipeline.stores.embedded.parquet_files import DayFile
from ottla.pipeline.stores.embedded.store import EmbeddedStore
from ottla.pipeline.stores.opening import open_store
from ottla.pipeline.stores.port import Batch, StoreError
from tests.pipeline.stores.embedded.failing_files import SteppedFiles
from tests.pipeline.stores.rows import DAY_MS, MONDAY, MONDAY_MS, batch, event, events, ids_in

MB = 1 << 20


def unsynced(folder: Path) -> EmbeddedStore:
    store = EmbeddedStore(folder, files=SteppedFiles(lambda number, name: None))
    store.initialise()
    return store


def day_files(folder: Path, table: str = "credit_log", day: str = MONDAY) -> list[str]:
    return [file.name for file in parquet_files.files_in(folder / "logs" / table / f"day={day}")]


def test_a_batch_writes_a_file_for_each_table_and_day_under_its_name(tmp_path: Path) -> None:
    store = unsynced(tmp_path)
    store.append_arrow(events([event(1), event(2, event_time=MONDAY_MS + DAY_MS)]), batch(7, run="abc"))
    assert day_files(tmp_path) == day_files(tmp_path, day="2026-01-02") == ["part-abc-0000000007-0.parquet"]
    assert "day" not in pq.read_schema(tmp_path / "logs/credit_log/day=2026-01-01/part-abc-0000000007-0.parquet").names


def test_a_batch_that_is_run_again_leaves_its_file_alone(tmp_path: Path) -> None:
    store = unsynced(tmp_path)
    store.append_arrow(events([event(1)]), batch(0))
    path = tmp_path / "logs/credit_log/day=2026-01-01" / day_files(tmp_path)[0]
    before = path.stat()
    store.append_arrow(events([event(1)]), batch(0))
    assert path.stat() == before


def test_small_files_are_merged_and_hold_the_same_rows(tmp_path: Path) -> None:
    store = unsynced(tmp_path)
    numbers = range(3 * MERGED_FILES)
    for number in numbers:
        store.append_arrow(events([event(number)]), batch(number))
        assert len(day_files(tmp_path)) <= MERGED_FILES + 1
    assert ids_in(store) == sorted(f"event-{number}" for number in numbers)
    again = store.append_arrow(events(event(number) for number in numbers), batch(0, run="again"))
    assert again.duplicates == {"credit_log": len(numbers)}
    assert unsynced(tmp_path).append_arrow(events([event(5)]), batch(1, run="again")).duplicates == {"credit_log": 1}


def test_files_are_merged_with_others_of_their_size() -> None:
    small = [DayFile(f"s{number}", 1000) for number in range(MERGED_FILES)]
    middle = [DayFile(f"m{number}", 2 * MB) for number in range(MERGED_FILES)]
    large = [DayFile(f"l{number}", 300 * MB) for number in range(MERGED_FILES)]
    assert choose([*small, *middle, *large]) == [file.name for file in small]
    assert choose([*small[1:], *middle, *large]) == [file.name for file in middle]
    assert choose([*small[1:], *middle[1:], *large]) == []


def test_a_file_system_that_cannot_exchange_folders_keeps_its_small_files(tmp_path: Path) -> None:
    class WithoutExchange(SteppedFiles):
        def exchange(self, one: Path, other: Path) -> bool:
            return False

    store = EmbeddedStore(tmp_path, files=WithoutExchange(lambda number, name: None))
    store.initialise()
    for number in range(MERGED_FILES + 2):
        store.append_arrow(events([event(number)]), batch(number))
    assert len(day_files(tmp_path)) == MERGED_FILES + 2
    assert len(ids_in(store)) == MERGED_FILES + 2


def test_indexes_that_were_dropped_for_want_of_room_are_read_again(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    tables = LogTables(tmp_path / "logs", scratch, SteppedFiles(lambda number, name: None), index_bytes_max=1)
    rows = [event(number, event_time=MONDAY_MS + number * DAY_MS) for number in range(5)]
    for number, row in enumerate(rows):
        tables.append(events([row]), batch(number))
    assert tables.append(events(rows), batch(9)).duplicates == {"credit_log": 5}


def test_two_stores_on_one_folder_know_what_the_other_wrote(tmp_path: Path) -> None:
    one, other = unsynced(tmp_path), unsynced(tmp_path)
    one.append_arrow(events([event(1)]), batch(0, run="one"))
    assert other.append_arrow(events([event(1), event(2)]), batch(0, run="other")).written == {"credit_log": 1}
    assert one.append_arrow(events([event(2), event(3)]), batch(1, run="one")).written == {"credit_log": 1}
    assert ids_in(one) == ids_in(other) == ["event-1", "event-2", "event-3"]


def test_a_day_that_is_merged_while_it_is_read_is_read_as_it_was(tmp_path: Path) -> None:
    store = unsynced(tmp_path)
    for number in range(MERGED_FILES):
        store.append_arrow(events([event(number)]), batch(number))
    reading = store.scan("credit_log", columns=["event_id"])
    seen = next(reading).column("event_id").to_pylist()
    store.append_arrow(events([event(100)]), batch(100))
    assert len(day_files(tmp_path)) == 2
    for part in reading:
        seen += part.column("event_id").to_pylist()
    assert sorted(seen) == sorted(f"event-{number}" for number in range(MERGED_FILES))


def test_a_run_that_is_no_name_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no id of a run"):
        unsynced(tmp_path).append_arrow(events([event(1)]), Batch("collect", "../x", 0))


def test_a_topic_without_a_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="events of elsewhere: no log table"):
        unsynced(tmp_path).append_arrow(events([{**event(1), "topic": "elsewhere"}]), batch(0))


def test_pyarrow_reads_days_as_a_column(tmp_path: Path) -> None:
    store = unsynced(tmp_path)
    store.append_arrow(events([event(1), event(2, event_time=MONDAY_MS + DAY_MS)]), batch(0))
    rows = ds.dataset(tmp_path / "logs" / "credit_log", partitioning="hive").to_table(columns=["event_id", "day"])
    assert sorted(map(str, rows.column("day").to_pylist())) == ["2026-01-01", "2026-01-02"]


def test_a_folder_without_tables_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds no tables"):
        open_store("embedded", path=tmp_path).append_arrow(events([event(1)]), batch(0))


def test_tables_of_another_version_are_refused_in_words(tmp_path: Path) -> None:
    store = unsynced(tmp_path)
    with store._serving.transaction("setting a version") as connection:
        connection.execute("PRAGMA user_version = 7")
    with pytest.raises(StoreError, match="tables of version 7, this is version 1"):
        store.initialise()


@pytest.mark.parametrize(
    ("kind", "address", "reason"),
    [
        ("embedded", {}, "needs a folder"),
        ("cassandra", {}, "needs an address"),
        ("cassandra", {"cassandra": "nowhere"}, "not the address of a Cassandra keyspace"),
        ("paper", {}, "there is no store 'paper'"),
    ],
)
def test_a_store_that_cannot_be_meant_is_refused(kind: str, address: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        open_store(kind, **address)
