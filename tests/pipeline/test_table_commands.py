"""`ottla pipeline show`, `late`, `init-store`, `expire` and `reconcile` on an embedded store, without Spark."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from ottla.cli.main import main
from tests.pipeline.books import fill_books


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Pipeline = Callable[..., Ended]


@pytest.fixture
def pipeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Pipeline:
    def run(command: str, *arguments: str) -> Ended:
        capsys.readouterr()
        code = main(["pipeline", command, *arguments, "--store-path", str(tmp_path / "store")])
        return Ended(code, *capsys.readouterr())

    return run


@pytest.fixture
def books(tmp_path: Path) -> Path:
    fill_books(tmp_path / "store")
    return tmp_path / "store"


def test_rows_are_shown_by_condition_order_and_limit(pipeline: Pipeline, books: Path) -> None:
    ended = pipeline(
        "show", "ledger", "--where", "account_id = a", "--where", "amount >= 5 and rule != 'none'", "--order",
        "amount:desc,event_time_ms", "--limit", "2", "--columns", "event_id,amount", "--json",
    )  # fmt: skip

    assert ended.json == [{"event_id": "t2", "amount": 30}, {"event_id": "c0a", "amount": 5}]
    assert pipeline("show", "balance", "--columns", "account_id,balance").out.split() == [
        "account_id", "balance", "a", "45", "b", "21",
    ]  # fmt: skip


def test_rows_beyond_the_limit_are_told(pipeline: Pipeline, books: Path) -> None:
    ended = pipeline("show", "credit_log", "--limit", "2")

    assert len(ended.out.splitlines()) == 3
    assert "2 of 6 rows" in ended.err
    assert len(pipeline("show", "credit_log", "--limit", "0", "--json").json) == 6


def test_tables_are_listed_with_their_rows(pipeline: Pipeline, books: Path) -> None:
    rows = {row["table"]: row["rows"] for row in pipeline("show", "--json").json}

    assert (rows["credit_log"], rows["ledger"], rows["late_event"]) == (6, 7, 0)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("ledgr",), "did you mean ledger"),
        (("ledger", "--where", "amont > 1"), "did you mean amount"),
        (("ledger", "--where", "amount > much"), "is a number"),
        (("ledger", "--where", "amount"), "is not a condition"),
        (("ledger", "--order", "amount:down"), "COLUMN:desc"),
    ],
)
def test_what_is_no_table_column_or_condition_is_wrong_usage(
    pipeline: Pipeline, books: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    ended = pipeline("show", *arguments)

    assert ended.code == 2
    assert complaint in ended.err


def test_a_folder_without_tables_is_told_in_words(pipeline: Pipeline, tmp_path: Path) -> None:
    ended = pipeline("show", "ledger")

    assert ended.code == 1
    assert "init-store" in ended.err
    assert not (tmp_path / "store").exists()


def test_init_store_makes_tables_once(pipeline: Pipeline) -> None:
    assert "created" in pipeline("init-store").err
    assert "all tables existed" in pipeline("init-store").err
    assert pipeline("show", "ledger", "--json").json == []


def test_books_that_are_right_reconcile(pipeline: Pipeline, books: Path) -> None:
    ended = pipeline("reconcile", "--json")

    assert ended.code == 0
    assert ended.json["clean"]
    assert ended.json["checked"]["entries"] == 7
    assert ended.json["totals"] == {"ledger": 66, "balances": 66}


def test_a_difference_planted_in_sqlite_is_found(pipeline: Pipeline, books: Path) -> None:
    with sqlite3.connect(books / "serving.sqlite") as connection:
        connection.execute("UPDATE balance SET balance = 46 WHERE account_id = 'a'")
    connection.close()

    ended = pipeline("reconcile", "--json")

    assert ended.code == 1
    (finding,) = ended.json["findings"]
    assert (finding["kind"], finding["key"]) == ("balance_wrong", {"account_id": "a"})
    assert (finding["seen"], finding["expected"]) == ({"balance": 46}, {"balance": 45})
    assert "balance_wrong" in pipeline("reconcile").out


def test_a_difference_planted_in_parquet_is_found(pipeline: Pipeline, books: Path) -> None:
    (path,) = (books / "logs" / "credit_log" / "day=2025-09-02").glob("*.parquet")
    pq.write_table(pq.read_table(path, partitioning=None).slice(0, 1), path)

    ended = pipeline("reconcile", "--json")

    assert ended.code == 1
    assert ended.json["differences"] == {"event_missing": 1}
    assert ended.json["findings"][0]["key"] in ({"event_id": "c1a"}, {"event_id": "c1b"})


def test_old_days_are_dropped_on_execute_only_and_the_books_still_prove(pipeline: Pipeline, books: Path) -> None:
    shown = pipeline("expire", "--days", "2", "--json").json
    assert {row["table"]: row["days"] for row in shown}["credit_log"] == ["2025-09-01"]
    assert len(pipeline("show", "credit_log", "--json").json) == 6

    assert pipeline("expire", "--days", "2", "--execute").code == 0
    days = {row["day"] for row in pipeline("show", "credit_log", "--json").json}
    assert days == {"2025-09-02", "2025-09-03"}
    ended = pipeline("reconcile", "--json")
    assert (ended.code, ended.json["unprovable"]) == (0, 2)


def test_days_to_keep_come_from_the_settings(pipeline: Pipeline, books: Path, tmp_path: Path) -> None:
    settings = tmp_path / "pipeline.toml"
    settings.write_text('[retention]\ndays_by_table = ["credit_log=1"]\n')

    shown = pipeline("expire", "--config", str(settings), "--json").json

    assert [(row["table"], row["before_day"]) for row in shown] == [("credit_log", "2025-09-03")]
    assert pipeline("expire", "--json").json == []


def test_no_late_events_make_an_empty_list(pipeline: Pipeline, books: Path) -> None:
    assert pipeline("late", "--json").json == []


def test_the_list_of_commands_imports_neither_spark_nor_arrow() -> None:
    code = (
        "import sys; from ottla.cli.main import main; main(['pipeline', '--help']);"
        "sys.exit(bool({'pyspark', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60).returncode == 0
