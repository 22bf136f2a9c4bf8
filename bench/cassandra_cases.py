"""The pipeline on Cassandra: how fast `collect` writes, beside what the driver alone writes from one process."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from bench.model import OURS, Case, Metric
from bench.peers import Peer
from interop.cassandra_peer import CassandraPeer

_PARTITIONS = 4
_TIMEOUT_S = 1_800
RATIO = "collect : driver alone"


class OnCassandra:
    """Both write the same rows to the same node, on the same cores, one after the other.

    The node starts for a round and ends with it: it takes memory and cores from every other case.
    """

    name = "pipeline-cassandra"
    title = "collect into Cassandra, all topics from their beginning"
    metrics: Sequence[Metric] = (
        Metric(RATIO, "x", goal=0.8, absolute_goal=True),
        Metric("collect, rows/s", "/s"),
        Metric("driver alone, rows/s", "/s"),
    )

    def __init__(self, work_dir: Path, *, accounts: int) -> None:
        self._work_dir = work_dir
        self._accounts = accounts

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        del peer  # other cases have filled the app's topics there
        folder = self._work_dir / f"cassandra-{round_number}"
        folder.mkdir()
        try:
            with Peer(OURS, self._work_dir) as own, CassandraPeer(folder / "data") as node:
                bootstrap = own.broker.bootstrap
                command = ["-m", "ottla.cli.main", "pipeline", "generate", "-b", bootstrap, "--days", "1"]
                _run([*command, "--accounts", str(self._accounts), "--partitions", str(_PARTITIONS)])
                job = {"bootstrap": bootstrap, "jobs": ["collect"], "work_dir": str(folder)}
                job["cassandra"] = node.bootstrap
                collected = json.loads(_run(["-m", "bench.pipeline_job", json.dumps(job)]).splitlines()[-1])
                written = json.loads(_run(["-m", "bench.cassandra_writing", f"{node.bootstrap}/measured"]))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        ours = written["rows"] / collected["seconds"]
        alone = written["rows"] / written["seconds"]
        return {RATIO: ours / alone, "collect, rows/s": ours, "driver alone, rows/s": alone}


def _run(arguments: Sequence[str]) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=_TIMEOUT_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments[:4])} …: {done.stderr.strip()[-500:]}")
    return done.stdout


def cassandra_cases(work_dir: Path, scale: float) -> Sequence[Case]:
    """None where Spark, Cassandra's driver, or Maven that brings Cassandra is missing."""
    has_all = all(find_spec(name) is not None for name in ("pyspark", "pyarrow", "cassandra"))
    if not has_all or shutil.which("mvn") is None or shutil.which("java") is None:
        return []
    return [OnCassandra(work_dir, accounts=int(6_000 * scale))]
