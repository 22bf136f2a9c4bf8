"""The pipeline's jobs once over all topics, in a process of its own: `python -m bench.pipeline_job '{...}'`.

Runs twice into new stores, the first time to warm the JVM up, and prints for the second what each job read and how long
it all took, with Spark running already.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import process_tree
from interop import process_usage
from ottla.pipeline.running.runner import Runner, RunPlan
from ottla.pipeline.settings import Settings
from ottla.pipeline.stores.opening import open_store
from ottla.pipeline.stores.port import Store
from ottla.spark.session import CARRYING_JAVA, LOCAL_CHECKPOINTS, spark_session


def run_once(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    spark = spark_session("local[2,4]", java_options=CARRYING_JAVA, settings=LOCAL_CHECKPOINTS)
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
        report=said.append,
        show=lambda progress: None,
    )
    # Tables are made once in a store's life, and take Cassandra seconds.
    store = _store(job.get("cassandra"), folder)
    store.initialise()
    store.close()
    cpu_before = _cpu_seconds(job)
    started = time.perf_counter()
    if not runner.run(lambda: spark):
        raise SystemExit("\n".join(said))
    seconds = time.perf_counter() - started
    cpu_after = _cpu_seconds(job)
    return {
        "seconds": seconds,
        "read": {each.job: each.rows_read for each in runner.progress},
        "cpu_seconds_of": {kind: cpu_after[kind] - cpu_before[kind] for kind in cpu_after},
        "batches": {each.job: each.batches for each in runner.progress},
    }


def _cpu_seconds(job: dict[str, Any]) -> dict[str, float]:
    """Of this process and all that it started, and of the broker where the job names it."""
    used = dict(process_tree.cpu_seconds(os.getpid()))
    if "broker_pid" in job:
        used[process_tree.BROKER] = process_usage.cpu_seconds(job["broker_pid"])
    return used


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
