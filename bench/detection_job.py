"""The jobs over topics, in a process of its own with its own Spark: `python -m bench.detection_job '{...}'`.

`histories` absent: once to warm up and `turns` times measured, into new stores. Given: over the same events into stores
that hold each of these histories already. Prints seconds, CPU seconds (driver, JVM and Python workers together) and
events read of each turn, as JSON on the last line.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.detection_history import History, new_events, write_history
from bench.pipeline_job import run_once
from ottla.pipeline.stores.opening import open_store


def measured(job: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """One run of the jobs, with what it cost."""
    figures = run_once(dict(job), folder)
    return {**figures, "cpu_seconds": sum(figures["cpu_seconds_of"].values())}


def run_turns(job: Mapping[str, Any], folder: Path) -> list[dict[str, Any]]:
    measured(job, folder / "warm_up")
    return [measured(job, folder / f"measured-{turn}") for turn in range(job["turns"])]


def run_histories(job: Mapping[str, Any], folder: Path) -> list[dict[str, Any]]:
    """A list of figures for each history; histories take turns, so that a busy machine hits all of them alike."""
    events = list(new_events(job["events"]))
    histories = [History(**each) for each in job["histories"]]
    for history in histories:
        store = open_store("embedded", path=folder / history.name)
        store.initialise()
        write_history(store, history, events)
        store.close()
    measured(job, folder / "warm_up")
    results: list[dict[str, Any]] = [{**history._asdict(), "runs": []} for history in histories]
    for turn in range(job["turns"]):
        for history, result in zip(histories, results, strict=True):
            run_folder = folder / f"{history.name}-{turn}"
            shutil.copytree(folder / history.name, run_folder / "store")
            result["runs"].append(measured(job, run_folder))
            shutil.rmtree(run_folder)
    return results


def main() -> None:
    job = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(dir=job["work_dir"]) as folder:
        done = run_histories(job, Path(folder)) if "histories" in job else run_turns(job, Path(folder))
        print(json.dumps(done))


if __name__ == "__main__":
    main()
