"""The script that Spark's workers are started by."""

import os
import subprocess
import sys
from pathlib import Path

from ottla.spark.worker_python import make_worker_python


def test_a_worker_is_this_python_without_the_zips_of_spark(tmp_path: Path) -> None:
    script = make_worker_python(tmp_path)
    path = "/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-0.10.9.9-src.zip:/my own/modules:/other.zip"
    code = "import os, sys; print(sys.executable, os.environ['PYTHONPATH'], *sys.argv[1:], sep='\\n')"

    done = subprocess.run(
        [script, "-c", code, "a b"], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60
    )

    assert done.stdout.splitlines() == [sys.executable, "/my own/modules:/other.zip", "a b"]


def test_a_python_in_a_folder_with_any_name_is_started(tmp_path: Path) -> None:
    odd = tmp_path / "a b é$HOME`id`\"'\\%20"
    odd.mkdir()
    python = odd / "python"
    python.write_text('#!/bin/sh\necho "$0" "$@"\n', encoding="utf-8")
    python.chmod(0o755)

    done = subprocess.run([make_worker_python(tmp_path, str(python)), "-m", "x"], capture_output=True, timeout=60)

    assert done.stdout.decode() == f"{python} -m x\n"
