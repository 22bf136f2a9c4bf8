"""The same rows for pyarrow, DuckDB and Spark, with what a crash leaves lying about; and rows that come from Spark."""

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow.dataset as ds
import pytest

from ottla.pipeline.stores.embedded.store import EmbeddedStore
from tests.pipeline.stores.embedded.failing_files import Ended, ending_at
from tests.pipeline.stores.rows import DAY_MS, MONDAY_MS, batch, entries, entry, event, events, rows_in, step, steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = ["account_id", "body_hash", "credit", "day", "event_id", "event_time", "extra"]


def test_others_read_what_spark_gave_and_nothing_of_what_was_cut_short(spark: "SparkSession", tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    store.initialise()
    rows = [event(n, event_time=MONDAY_MS + n % 3 * DAY_MS, account_id=f"account-{n % 5}") for n in range(50)]
    appended = store.append_events(spark.createDataFrame(events([*rows, rows[0] | {"offset": 99}])), batch(0))
    assert appended.written == {"credit_log": 50}
    posted = store.post(
        spark.createDataFrame(entries(entry("a", "one", 5))), spark.createDataFrame(steps(step(1, 1))), batch(0)
    )
    assert (posted.entries, posted.tasks_done) == (1, 1)
    with pytest.raises(Ended):
        EmbeddedStore(tmp_path, files=ending_at(2)).append_arrow(events([event(n) for n in range(60, 70)]), batch(1))
    assert list((tmp_path / ".writing").iterdir())

    expected = rows_in(store, "credit_log", COLUMNS)
    folder = tmp_path / "logs" / "credit_log"
    by_pyarrow = ds.dataset(folder, partitioning="hive").to_table().select(COLUMNS).to_pylist()
    by_duckdb = duckdb.sql(
        f"SELECT {', '.join(COLUMNS)} FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = true)"
    ).fetchall()
    by_spark = [tuple(row) for row in spark.read.parquet(str(folder)).select(*COLUMNS).collect()]
    for seen in ([tuple(row.values()) for row in by_pyarrow], by_duckdb, by_spark):
        texts = [
            tuple(str(value) if name == "day" else value for name, value in zip(COLUMNS, row, strict=True))
            for row in seen
        ]
        assert sorted(texts, key=repr) == expected
