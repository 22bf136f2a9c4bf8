"""`spark_session`: Spark with settings that suit one machine, quiet on the terminal, on whichever Java there is.

Owns the process's Spark gateway and its temporary folder. Knows nothing of topics.
"""

import atexit
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from ottla.spark.java import find_java_home
from ottla.spark.java_process import launch_java
from ottla.spark.source import register
from ottla.spark.worker_python import make_worker_python

# All cores, and a task that fails is tried three times more: plain local[*] never tries again.
LOCAL_MASTER: Final = "local[*,4]"
LOOPBACK: Final = "127.0.0.1"
# For queries whose work is done in Python, Java only carrying what they make: its second compiler, which pays off where
# Java itself handles rows, then takes more CPU than all else that Java does.
CARRYING_JAVA: Final = ("-XX:TieredStopAtLevel=1",)
# For queries whose checkpoints lie on this machine's disk, with one process at a time in each. As Spark comes it runs
# `readlink` and `chmod` for the files of every batch: a dozen processes, one after the other, while the batch waits.
LOCAL_CHECKPOINTS: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}

_log: Final = logging.getLogger(__name__)

_LOG_SETTINGS: Final = """\
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yy/MM/dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
"""


def spark_session(
    master: str = LOCAL_MASTER,
    app_name: str = "ottla",
    *,
    extra_jars: Sequence[str | os.PathLike[str]] = (),
    driver_memory: str = "1g",
    java_options: Sequence[str] = (),
    shuffle_partitions: int = 4,
    ui: bool = False,
    log_file: str | os.PathLike[str] | None = None,
    log_level: str = "warn",
    work_dir: str | os.PathLike[str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark in this process, or take the session that runs already; the data source `ottla` is registered.

    Spark logs into `log_file`, by default `spark.log` in `work_dir`; without a `work_dir` it has a temporary one, which
    goes when the process ends. `settings` are Spark's own, and win over everything here. What only holds from the start
    (master, memory, jars) can't change a session that runs: jars that are missing there are an error.
    """
    jars = [str(Path(jar).resolve()) for jar in extra_jars]
    if SparkContext._active_spark_context is not None:  # also of another thread
        running = SparkSession.builder.getOrCreate()
        _check_jars(running, jars)
        for name, value in (_runtime_settings(shuffle_partitions) | dict(settings or {})).items():
            if running.conf.isModifiable(name):
                running.conf.set(name, value)
        register(running)
        return running

    folder = _work_folder(work_dir)
    log_path = Path(log_file).resolve() if log_file is not None else folder / "spark.log"
    conf = SparkConf(loadDefaults=False)
    conf.setMaster(master).setAppName(app_name)
    _prepare_environment(folder, is_local=_is_loopback(master))
    chosen = _start_settings(folder, log_path, log_level=log_level, ui=ui, is_local=_is_loopback(master))
    chosen["spark.driver.extraJavaOptions"] += "".join(f" {option}" for option in java_options)
    if master.startswith("local"):
        # What tasks give goes from thread to thread: no way round by blocks that are fetched over a socket.
        chosen["spark.task.maxDirectResultSize"] = "64m"
    chosen |= _runtime_settings(shuffle_partitions)
    chosen["spark.driver.memory"] = driver_memory
    if jars:
        chosen["spark.jars"] = ",".join(jars)
    chosen |= settings or {}
    for name, value in chosen.items():
        conf.set(name, value)
    session = _start(conf, log_path)
    register(session)
    return session


def _runtime_settings(shuffle_partitions: int) -> dict[str, str]:
    return {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }


def _start_settings(folder: Path, log_path: Path, *, log_level: str, ui: bool, is_local: bool) -> dict[str, str]:
    log_settings = folder / "log4j2.properties"
    log_settings.write_text(_LOG_SETTINGS.format(level=log_level, file=log_path))
    chosen = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log_settings.as_uri()}",
        "spark.ui.enabled": "true" if ui else "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.sql.catalogImplementation": "in-memory",
        # How long a Python worker and the JVM wait for each other to answer; 15 s is too short on a busy machine.
        "spark.python.authenticate.socketTimeout": "120s",
    }
    if is_local:
        chosen |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return chosen


def _prepare_environment(folder: Path, *, is_local: bool) -> None:
    """What Spark's launcher and workers take from the environment alone; what the user has set there stays."""
    home = find_java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    if is_local and "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = str(make_worker_python(folder))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)


def _start(conf: SparkConf, log_path: Path) -> SparkSession:
    if SparkContext._gateway is None:
        log_path.parent.mkdir(parents=True, exist_ok=True)
        # The launcher and Python workers write to the terminal past any logger; into the same file with them.
        with open(log_path, "ab") as log:
            gateway = launch_java(conf, log)
    else:
        gateway = SparkContext._gateway
    try:
        context = SparkContext(gateway=gateway, conf=conf)
    except Exception as problem:
        raise RuntimeError(
            f"Spark doesn't start at {conf.get('spark.master')}: {problem}; its log: {log_path}"
        ) from problem
    _keep_quiet(context)
    return SparkSession(context)


def _keep_quiet(context: SparkContext) -> None:
    """Pyspark's server of accumulators prints a traceback past any logger when Java goes; others tell that in words."""

    def handle_error(request: object, client_address: object) -> None:
        _log.info("a connection of Spark's was lost", exc_info=True)

    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = handle_error


def _check_jars(running: SparkSession, jars: Sequence[str]) -> None:
    there = set(running.sparkContext.getConf().get("spark.jars", "").split(","))
    missing = [jar for jar in jars if jar not in there and Path(jar).as_uri() not in there]
    if missing:
        raise RuntimeError(
            f"a Spark session runs without {', '.join(missing)}; stop it first, or ask for them at its start"
        )


def _work_folder(work_dir: str | os.PathLike[str] | None) -> Path:
    if work_dir is not None:
        folder = Path(work_dir).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    folder = Path(tempfile.mkdtemp(prefix="ottla-spark-"))
    # Registered before Spark's own handler is, so it runs after it.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _is_loopback(master: str) -> bool:
    return master.startswith(("local", "spark://127.", "spark://localhost"))
