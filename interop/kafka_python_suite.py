"""kafka-python's integration tests: its source package, fetched once by pip into the user's cache, and one run of them.

Owns what the package lacks to be run (`test/__init__.py`, `test/service.py`). Changes nothing in the tests themselves.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import kafka

from interop.kafka_jars import PeerMissingError

_SERVICE = Path(__file__).with_name("kafka_python_service.py")
_RUN_TIMEOUT_SECONDS = 240.0


class SuiteRun(NamedTuple):
    """How one run ended: test names by outcome, and what pytest printed."""

    passed: list[str]
    failed: list[str]
    skipped: list[str]
    printed: str


def suite_dir() -> Path:
    """The unpacked source package of the kafka-python that is installed, ready to be run."""
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache_home / "ottla" / f"kafka-python-{kafka.__version__}"
    if not (folder / "test" / "integration").is_dir():
        _fetch(folder)
    # Without it `test` would be the package of that name in Python's own library.
    (folder / "test" / "__init__.py").touch()
    shutil.copyfile(_SERVICE, folder / "test" / "service.py")
    return folder


def _fetch(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as scratch:
        package = f"kafka-python=={kafka.__version__}"
        download = ["download", "--quiet", "--no-deps", "--no-binary", "kafka-python", "--dest", scratch, package]
        fetched = subprocess.run(
            [sys.executable, "-m", "pip", *download], capture_output=True, text=True, timeout=300, check=False
        )
        archives = list(Path(scratch).glob("*.tar.gz"))
        if fetched.returncode != 0 or len(archives) != 1:
            raise PeerMissingError(f"pip could not fetch the source of {package}:\n{fetched.stderr[-1000:]}")
        with tarfile.open(archives[0]) as archive:
            archive.extractall(scratch, filter="data")
        (unpacked,) = (path for path in Path(scratch).iterdir() if path.is_dir())
        unpacked.rename(folder)


def run_suite(port: int, kafka_version: str, selected: str, *arguments: str, scratch: Path) -> SuiteRun:
    """What is selected of `test/integration`, against the broker on this port of 127.0.0.1, in a pytest of its own."""
    folder = suite_dir()
    report = scratch / "report.xml"
    command = [sys.executable, "-m", "pytest", f"test/integration/{selected}", f"--junitxml={report}", *arguments]
    # Its own settings ask for plugins that are not needed: the run has a time limit as a whole.
    command += ["--override-ini=addopts=", "--override-ini=log_level=WARNING", "--tb=short", "--durations=5"]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly", "--disable-warnings"]
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")},
        "KAFKA_URI": f"kafka://127.0.0.1:{port}",
        "KAFKA_VERSION": kafka_version,
        "KAFKA_ROOT": str(folder),  # where its fixtures would look for a Kafka to start; only has to exist
    }
    finished = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_RUN_TIMEOUT_SECONDS,
        check=False,
    )
    if not report.exists():
        raise RuntimeError(f"the run of {selected} ended with {finished.returncode}:\n{finished.stdout[-4000:]}")
    outcomes: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        has_failed = case.find("failure") is not None or case.find("error") is not None
        outcome = "failed" if has_failed else "skipped" if case.find("skipped") is not None else "passed"
        outcomes[outcome].append(case.get("name", ""))
    return SuiteRun(**outcomes, printed=finished.stdout)
