"""`spark_session`: Spark with settings that suit one machine, quiet on the terminal, on whichever Java there is.

Owns the process's Spark gateway and its temporary folder. Knows nothing of topics.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from ottla.spark.environment import LOOPBACK, applied, cluster_environment, local_environment
from ottla.spark.foreign_spark import GATEWAY
from ottla.spark.java import find_java_home, without_wrong_options
from ottla.spark.java_process import launch_java
from ottla.spark.java_text import option_string
from ottla.spark.session_folder import make_session_folder, plain_name
from ottla.spark.source import register
from ottla.spark.start_failure import first_cause, first_complaint
from ottla.spark.worker_python import make_worker_python

# All cores, and a task that fails is tried three times more: plain local[*] never tries again.
LOCAL_MASTER: Final = "local[*,4]"
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
    # It looks for checkpoints that Spark 2 wrote under names with %20 for a space, and takes any such folder for one.
    "spark.sql.streaming.checkpoint.escapedPathCheck.enabled": "false",
}

_log: Final = logging.getLogger(__name__)

# To the standard error, which goes into the log's file: so that no name of a file has to be spelt in this one.
_LOG_SETTINGS: Final = """\
rootLogger.level = {level}
rootLogger.appenderRef.log.ref = log
appender.log.type = Console
appender.log.name = log
appender.log.target = SYSTEM_ERR
appender.log.layout.type = PatternLayout
appender.log.layout.pattern = %d{{yy/MM/dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
"""
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"


class SparkNotStarted(RuntimeError):
    """Spark could not be started; the message says why in one line, and where its log is."""


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
    jars = [Path(jar).absolute().as_uri() for jar in extra_jars]
    if SparkContext._active_spark_context is not None:  # also of another thread
        return _take_running(jars, _runtime_settings(shuffle_partitions) | dict(settings or {}))

    folder = make_session_folder()
    work = folder if work_dir is None else Path(work_dir).absolute()
    work.mkdir(parents=True, exist_ok=True)
    log_path = Path(log_file).absolute() if log_file is not None else work / "spark.log"
    log_path.parent.mkdir(parents=True, exist_ok=True)
    chosen = _start_settings(folder, plain_name(work, folder, link="work"), ui=ui, is_local=_is_loopback(master))
    options = [*_java_options(folder, log_level=log_level), *java_options]
    chosen[_JAVA_OPTIONS] = option_string(options)
    if master.startswith("local"):
        # What tasks give goes from thread to thread: no way round by blocks that are fetched over a socket.
        chosen["spark.task.maxDirectResultSize"] = "64m"
    chosen |= _runtime_settings(shuffle_partitions)
    chosen["spark.driver.memory"] = driver_memory
    if jars:
        chosen["spark.jars"] = ",".join(jars)
    given = dict(settings or {})
    if _JAVA_OPTIONS in given:
        given[_JAVA_OPTIONS] = f"{chosen[_JAVA_OPTIONS]} {given[_JAVA_OPTIONS]}"
    conf = SparkConf(loadDefaults=False)
    conf.setMaster(master).setAppName(app_name)
    for name, value in (chosen | given).items():
        conf.set(name, value)
    with applied(_environment(master, folder)):
        return _start(conf, log_path)


def _take_running(jars: Sequence[str], settings: Mapping[str, str]) -> SparkSession:
    # One of these would lead pyspark to a server of Spark Connect.
    with applied({name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}):
        running = SparkSession.builder.getOrCreate()
    _check_jars(running, jars)
    for name, value in settings.items():
        if running.conf.isModifiable(name):
            running.conf.set(name, value)
    register(running)
    return running


def _runtime_settings(shuffle_partitions: int) -> dict[str, str]:
    return {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }


def _start_settings(folder: Path, work: Path, *, ui: bool, is_local: bool) -> dict[str, str]:
    chosen = {
        "spark.ui.enabled": "true" if ui else "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(work / "local"),
        "spark.sql.warehouse.dir": str(work / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        # How long a Python worker and the JVM wait for each other to answer; 15 s is too short on a busy machine.
        "spark.python.authenticate.socketTimeout": "120s",
    }
    if is_local:
        chosen |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return chosen


def _java_options(folder: Path, *, log_level: str) -> list[str]:
    log_settings = _conf_dir(folder) / "log4j2.properties"
    log_settings.write_text(_LOG_SETTINGS.format(level=log_level), encoding="ascii")
    temporary = folder / "tmp"
    temporary.mkdir()
    return [f"-Dlog4j2.configurationFile={log_settings.as_uri()}", f"-Djava.io.tmpdir={temporary}"]


def _conf_dir(folder: Path) -> Path:
    conf_dir = folder / "conf"
    conf_dir.mkdir(exist_ok=True)
    return conf_dir


def _environment(master: str, folder: Path) -> Mapping[str, str]:
    """For Spark's launcher and workers, which take much from the environment alone."""
    if GATEWAY in os.environ:  # all of it is settled already
        return os.environ
    java_home = find_java_home()
    spark_home = Path(pyspark.__file__).parent
    given = dict(os.environ)
    if master.startswith("local"):
        chosen = local_environment(
            given,
            spark_home=spark_home,
            conf_dir=_conf_dir(folder),
            python=make_worker_python(folder),
            java_home=java_home,
        )
    else:
        if _is_loopback(master):
            given.setdefault("PYSPARK_PYTHON", str(make_worker_python(folder)))
            given.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        chosen = cluster_environment(given, spark_home=spark_home, java_home=java_home)
    variables = without_wrong_options(chosen.variables)
    ignored = sorted({*chosen.ignored, *(chosen.variables.keys() - variables.keys())})
    if ignored:
        _log.warning("the environment's %s are not of this Spark, and are ignored", ", ".join(ignored))
    return variables


def _start(conf: SparkConf, log_path: Path) -> SparkSession:
    # The launcher, Java and Python workers write to the terminal past any logger; into the log with them.
    with open(log_path, "ab") as log:
        log_start = log.tell()
        try:
            gateway = SparkContext._gateway
            if gateway is None:
                gateway = launch_java(conf, log)
            context = SparkContext(gateway=gateway, conf=conf)
            _keep_quiet(context)
            session = SparkSession(context)
            register(session)
        # A master that doesn't answer is seen in whatever Spark happens to be doing when it gives up.
        except Exception as problem:
            why = first_complaint(_read_from(log_path, log_start)) or first_cause(str(problem))
            raise SparkNotStarted(
                f"Spark doesn't start at {conf.get('spark.master')}: {why}; its log: {log_path}"
            ) from problem
    return session


def _read_from(path: Path, position: int) -> str:
    with open(path, "rb") as file:
        file.seek(position)
        return file.read().decode(errors="replace")


def _keep_quiet(context: SparkContext) -> None:
    """Pyspark's server of accumulators prints a traceback past any logger when Java goes; others tell that in words."""

    def handle_error(request: object, client_address: object) -> None:
        _log.info("a connection of Spark's was lost", exc_info=True)

    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = handle_error


def _check_jars(running: SparkSession, jars: Sequence[str]) -> None:
    there = set(running.sparkContext.getConf().get("spark.jars", "").split(","))
    missing = [unquote(urlsplit(jar).path) for jar in jars if jar not in there]
    if missing:
        raise RuntimeError(
            f"a Spark session runs without {', '.join(missing)}; stop it first, or ask for them at its start"
        )


def _is_loopback(master: str) -> bool:
    return master.startswith(("local", "spark://127.", "spark://localhost"))
