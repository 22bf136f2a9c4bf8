"""A standalone Spark cluster on 127.0.0.1 from the pyspark package: a master and two workers of one core each."""

import json
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyspark

from interop.broker_process import BrokerProcess, BrokerProcessError, free_port
from ottla.spark.java import find_java_home

WORKERS = 2
_REGISTERED_WITHIN_S = 300.0
_SPARK_HOME = Path(pyspark.__file__).parent


class _SparkDaemon(BrokerProcess):
    """Runs in the foreground; `port` is where it is talked to, `page_port` where its page is."""

    start_timeout_seconds = 300.0

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self.page_port = free_port()

    def environment(self) -> dict[str, str]:
        home = find_java_home()
        given = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
        given |= {"SPARK_HOME": str(_SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
        return given if home is None else {**given, "JAVA_HOME": str(home)}

    def page(self) -> dict[str, Any]:
        """What its page says, as JSON; empty before it is up."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.page_port}/json/", timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
        except (urllib.error.URLError, OSError, ValueError):
            return {}
        return found

    def answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1.0).close()
        except OSError:
            return False
        return True

    def spark_class(self, name: str, *arguments: str) -> Sequence[str]:
        ports = ("--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.page_port))
        return [str(_SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *ports, *arguments]


class _Master(_SparkDaemon):
    name = "spark master"

    def command(self) -> Sequence[str]:
        return self.spark_class("master.Master")


class _Worker(_SparkDaemon):
    name = "spark worker"

    def __init__(self, data_dir: Path, master: str) -> None:
        super().__init__(data_dir)
        self._master = master

    def command(self) -> Sequence[str]:
        return self.spark_class(
            "worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(self.data_dir), self._master
        )


class SparkCluster:
    """`start`, then `master` is the URL; `stop` ends all of it."""

    def __init__(self, folder: Path) -> None:
        self._master = _Master(folder / "master")
        self.master = f"spark://127.0.0.1:{self._master.port}"
        self._workers = [_Worker(folder / f"worker-{number}", self.master) for number in range(WORKERS)]

    def start(self) -> None:
        # All at once: workers knock until their master is there.
        try:
            with ThreadPoolExecutor() as pool:
                list(pool.map(_SparkDaemon.start, (self._master, *self._workers)))
            deadline = time.monotonic() + _REGISTERED_WITHIN_S
            while self._master.page().get("aliveworkers") != WORKERS:
                if time.monotonic() > deadline:
                    raise BrokerProcessError(f"Spark's workers did not register:\n{self._workers[0].output_tail()}")
                time.sleep(0.1)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for daemon in (*self._workers, self._master):
            daemon.stop()

    def executors(self) -> list[int]:
        """How many executors each worker has had."""
        return [len(list(worker.data_dir.glob("app-*/*/"))) for worker in self._workers]
