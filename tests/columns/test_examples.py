"""The examples of the columns do what they say, where their library is installed."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tests.columns.test_reading import send
from tests.processes import BrokerProcess
from tests.records.samples import NOW_MS

EXAMPLES = Path(__file__).parents[2] / "examples" / "columns"


@pytest.fixture(scope="module")
def purchases(shared_broker: BrokerProcess) -> BrokerProcess:
    rows = range(600)
    table = pa.table(
        {
            "key": [f"customer-{row % 4}" for row in rows],
            "value": [json.dumps({"amount": row}) for row in rows],
            "timestamp": pa.array([NOW_MS + row * 200 for row in rows], pa.int64()),
        }
    )
    send(shared_broker, "purchases", table, partitions=2)
    return shared_broker


def run(broker: BrokerProcess, library: str) -> list[str]:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    command = [sys.executable, str(EXAMPLES / f"with_{library}.py"), broker.address, "purchases"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.process
def test_pandas_counts_by_minute(purchases):
    lines = [line.split() for line in run(purchases, "pandas")[2:]]
    assert sum(int(line[2]) for line in lines) == 600
    assert sum(int(line[3]) for line in lines) == sum(range(600))


@pytest.mark.process
def test_polars_has_the_last_value_of_each_key(purchases):
    assert run(purchases, "polars") == [f'customer-{last} {{"amount": {596 + last}}} 150' for last in range(4)]


@pytest.mark.process
def test_duckdb_sums_by_key(purchases):
    expected = [f"customer-{key} 150 {sum(range(key, 600, 4))}" for key in (3, 2, 1)]
    assert run(purchases, "duckdb") == expected
