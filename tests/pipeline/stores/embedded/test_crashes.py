"""The embedded store at its worst moments: each step of each call is where the process ends, once.

Files are read there by others too: pyarrow and DuckDB must see every row that was promised, and none twice.
"""

import multiprocessing
import random
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow.dataset as ds
import pytest

from ottla.pipeline.stores.embedded.merging import MERGED_FILES
from ottla.pipeline.stores.embedded.store import EmbeddedStore
from ottla.pipeline.stores.port import StoreError
from tests.pipeline.stores.embedded.failing_files import (
    Ended,
    PowerCutFiles,
    SteppedFiles,
    full_at,
    killing_at,
)
from tests.pipeline.stores.rows import (
    DAY_MS,
    LOGINS,
    MONDAY_MS,
    batch,
    contents,
    entries,
    entry,
    event,
    events,
    ids_in,
    rows_in,
    step,
    steps,
)

pytestmark = pytest.mark.slow

Call = Callable[[EmbeddedStore], None]

BEFORE = [f"event-{number}" for number in range(MERGED_FILES)]
# Into two tables, two days, a new day among them; with an id that is known and one in conflict.
LAST = [
    event(100),
    event(101, event_time=MONDAY_MS + DAY_MS),
    event(102, topic=LOGINS),
    event(103, "event-3"),
    event(104, "event-4", credit=99),
]
WRITTEN = {"event-100", "event-101"}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose next batch leads to a merge."""
    folder = tmp_path_factory.mktemp("filled") / "store"
    store = EmbeddedStore(folder)
    store.initialise()
    for number in range(MERGED_FILES):
        store.append_arrow(events([event(number)]), batch(number))
    store.post_arrow(entries(entry("a", "one", 5)), steps(step(1, 2)), batch(0))
    shadow = store.shadow("replay")
    shadow.append_arrow(events([event(1), event(2)]), batch(0))
    shadow.post_arrow(entries(entry("s", "one", 7)), steps(), batch(0))
    shadow.close()
    store.close()
    return folder


@pytest.fixture
def copied(filled: Path, tmp_path: Path) -> Callable[[], Path]:
    numbers = iter(range(1000))

    def copy() -> Path:
        return Path(shutil.copytree(filled, tmp_path / str(next(numbers))))

    return copy


def append_last(store: EmbeddedStore) -> None:
    store.append_arrow(events(LAST), batch(MERGED_FILES))


def post_last(store: EmbeddedStore) -> None:
    store.post_arrow(entries(entry("a", "one", 5), entry("b", "two", 6)), steps(step(2, 2)), batch(1))


def expire_monday(store: EmbeddedStore) -> None:
    store.expire("credit_log", before_day="2026-01-02")


def swap_in(store: EmbeddedStore) -> None:
    store.swap("replay")


# Calls, and the tables that tell what they did.
LOGS = ("credit_log", "login_log")
BOOKS = ("ledger", "balance", "task_progress", "task_step", "task_reward")
CALLS = [
    pytest.param(append_last, LOGS, id="append"),
    pytest.param(post_last, BOOKS, id="post"),
    pytest.param(expire_monday, LOGS, id="expire"),
    pytest.param(swap_in, (*LOGS, "balance"), id="swap"),
]


def unsynced(folder: Path) -> EmbeddedStore:
    return EmbeddedStore(folder, files=SteppedFiles(lambda number, name: None))


def ids_read_by_pyarrow(folder: Path) -> list[str]:
    rows = ds.dataset(folder / "logs" / "credit_log", partitioning="hive").to_table(columns=["event_id"])
    return sorted(rows.column("event_id").to_pylist())


def ids_read_by_duckdb(folder: Path) -> list[str]:
    # The recursive pattern sees whatever lies anywhere below, under any name that ends so.
    pattern = folder / "logs" / "credit_log" / "**" / "*.parquet"
    return sorted(row[0] for row in duckdb.sql(f"SELECT event_id FROM read_parquet('{pattern}')").fetchall())


def test_whoever_reads_the_files_while_they_change_sees_each_row_once(copied: Callable[[], Path]) -> None:
    folder = copied()
    steps_seen = []

    def look(number: int, name: str) -> None:
        steps_seen.append(name)
        seen = ids_read_by_pyarrow(folder)
        assert seen == ids_read_by_duckdb(folder) == ids_in(EmbeddedStore(folder))
        assert len(seen) == len(set(seen))
        assert {*BEFORE} <= {*seen} <= {*BEFORE, *WRITTEN}

    append_last(EmbeddedStore(folder, files=SteppedFiles(look)))
    assert {"write", "rename", "exchange"} <= {*steps_seen}
    assert set(ids_read_by_duckdb(folder)) == {*BEFORE, *WRITTEN}


@pytest.mark.parametrize(("call", "tables"), CALLS)
def test_a_call_that_was_cut_short_anywhere_is_made_good_when_it_is_made_again(
    copied: Callable[[], Path], call: Call, tables: tuple[str, ...]
) -> None:
    """By a power cut: what was not made durable by then is lost. A process that ends loses less than that."""
    counted = SteppedFiles(lambda number, name: None)
    store = EmbeddedStore(copied(), files=counted)
    call(store)
    expected = contents(store, tables)
    assert counted.steps > 0
    for cut_at in range(counted.steps):
        folder = copied()
        with pytest.raises(Ended):
            call(EmbeddedStore(folder, files=PowerCutFiles(cut_at)))
        if call is append_last:
            assert {*BEFORE} <= {*ids_read_by_duckdb(folder)} <= {*BEFORE, *WRITTEN}
        again = unsynced(folder)
        if not (call is swap_in and contents(again, tables) == expected):  # one that had begun is finished by a reader
            call(again)
        assert contents(again, tables) == expected, f"cut at step {cut_at}"
        assert not list((folder / ".writing").iterdir())
        again.close()


@pytest.mark.parametrize(("call", "tables"), CALLS[:2])
def test_a_full_disk_is_told_and_the_next_run_goes_on(
    copied: Callable[[], Path], call: Call, tables: tuple[str, ...]
) -> None:
    counted = SteppedFiles(lambda number, name: None)
    quiet = EmbeddedStore(copied(), files=counted)
    call(quiet)
    expected = contents(quiet, tables)
    reported = []
    for full_step in range(counted.steps):
        store = EmbeddedStore(copied(), files=full_at(full_step))
        try:
            call(store)
        except StoreError as problem:
            reported.append(str(problem))
        call(store)  # the very same object: a long-running job does not start anew
        assert contents(store, tables) == expected
        store.close()
    assert reported
    assert all("make room on the disk" in message and "again" in message for message in reported)


def _call_and_be_killed(folder: Path, call: Callable[[EmbeddedStore], None], cut_at: int) -> None:
    call(EmbeddedStore(folder, files=killing_at(cut_at)))


def _call_and_be_killed(folder: Path, call: Call, cut_at: int) -> None:
    call(EmbeddedStore(folder, files=killing_at(cut_at)))


@pytest.mark.process
@pytest.mark.parametrize(("call", "cut_at"), [(append_last, 1), (append_last, 6), (append_last, 11), (post_last, 0)])
def test_a_process_that_is_killed_loses_nothing_and_leaves_nothing_twice(
    copied: Callable[[], Path], call: Call, cut_at: int
) -> None:
    quiet = unsynced(copied())
    call(quiet)
    folder = copied()
    process = multiprocessing.get_context("spawn").Process(target=_call_and_be_killed, args=(folder, call, cut_at))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    store = EmbeddedStore(folder)
    call(store)
    assert contents(store) == contents(quiet)
    store.close()


def test_a_disk_that_is_really_full_is_told_and_the_next_run_goes_on(tmp_path: Path) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small file system can't be mounted here")
    try:
        store = EmbeddedStore(tmp_path / "store")
        store.initialise()
        maker = random.Random(1)
        batches = [
            [event(n, account_id=maker.randbytes(500).hex()) for n in range(b * 100, b * 100 + 100)] for b in range(20)
        ]
        reported = None
        for number, rows in enumerate(batches):
            credits_ = entries(*(entry(row["event_id"], row["account_id"], 1) for row in rows))
            for call in (
                lambda number=number, rows=rows: store.append_arrow(events(rows), batch(number)),
                lambda number=number, credits_=credits_: store.post_arrow(credits_, steps(), batch(number)),
            ):
                try:
                    call()
                except StoreError as problem:
                    reported = reported or str(problem)
                    subprocess.run(["mount", "-o", "remount,size=64m", tmp_path], check=True)
                    call()
        assert reported is not None
        assert "failed" in reported
        assert len(ids_in(store)) == 2000
        assert len(rows_in(store, "balance")) == len(rows_in(store, "ledger")) == 2000
        store.close()
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)
