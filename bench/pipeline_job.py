"""The pipeline's jobs once over all topics, in a process of its own: `python -m bench.pipeline_job '{...}'`.

Runs twice into new stores, the first time to warm the JVM up, and prints for the second what each job read and how long
it all took, with Spark running already.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ottla.pipeline.running.runner import Runner, RunPlan
from ottla.pipeline.settings import Settings
from ottla.pipeline.stores.opening import open_store
from ottla.pipeline.stores.port import Store
from ottla.spark import spark_session


def run_once(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    spark = spark_session("local[2,4]")
    plan = RunPlan(
        bootstrap=job["bootstrap"],
        jobs=tuple(job["jobs"]),
        connector="ottla",
        trigger_ms=None,
        checkpoint=folder / "checkpoint",
        store_name="bench",
        metrics_json=None,
    )
    said: list[str] = []
    runner = Runner(
        plan,
        Settings(),
        open_store=lambda: _store(job.get("cassandra"), folder),
        tell=said.append,
        show=lambda progress: None,
    )
    # Tables are made once in a store's life, and take Cassandra seconds.
    store = _store(job.get("cassandra"), folder)
    store.initialise()
    store.close()
    started = time.perf_counter()
    if not runner.run(lambda: spark):
        raise SystemExit("\n".join(said))
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "read": {each.job: each.rows_read for each in runner.progress}}


def _store(cassandra: str | None, folder: Path) -> Store:
    """Embedded, or on this node of Cassandra in a keyspace with the folder's name."""
    if cassandra is None:
        return open_store("embedded", path=folder / "store")
    return open_store("cassandra", cassandra=f"{cassandra}/{folder.name}")


def main() -> None:
    job = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(dir=job["work_dir"]) as folder:
        run_once(job, Path(folder) / "warm_up")
        print(json.dumps(run_once(job, Path(folder) / "measured")))


if __name__ == "__main__":
    main()
