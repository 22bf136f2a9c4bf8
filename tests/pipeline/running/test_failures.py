"""Why a query failed, in one line."""

import errno

import pytest
from pyspark.errors import PythonException, StreamingQueryException

from ottla.clients.errors import ConnectionFailed
from ottla.pipeline.running.failures import describe_failure, is_lasting

TRACEBACK = """[STREAM_FAILED] Query [id = 1] terminated with exception: boom
Traceback (most recent call last):
  File "reading.py", line 5, in read
    raise DataLoss(what)
ottla.spark.data_loss.DataLoss: t-0: offsets 3 to 8 are gone; set failOnDataLoss to false

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:500)
Caused by: org.apache.spark.SparkException: Job aborted
=== Streaming Query ===
Identifier: collect [id = 1, runId = 2]
"""


def test_our_own_error_is_found_in_what_spark_says() -> None:
    expected = "t-0: offsets 3 to 8 are gone; set source.fails_on_data_loss to false"
    assert describe_failure(PythonException(TRACEBACK)) == expected
    assert describe_failure(StreamingQueryException(TRACEBACK)) == expected


def test_the_last_cause_of_java_is_told_where_there_is_none_of_ours() -> None:
    text = "Job aborted\n\tat x\nCaused by: java.io.IOException: disk is broken\nCaused by: org.x.SparkException: no"
    assert describe_failure(StreamingQueryException(text)) == "IOException: disk is broken"


def test_a_full_disk_is_told_as_such() -> None:
    assert "no space left" in describe_failure(OSError(errno.ENOSPC, "No space left on device", "/data/x"))
    assert "no space left" in describe_failure(StreamingQueryException("IOException: No space left on device"))


def test_errors_of_the_driver_speak_for_themselves_and_are_kept_short() -> None:
    assert describe_failure(ConnectionFailed("127.0.0.1:1 refused")) == "127.0.0.1:1 refused"
    assert describe_failure(KeyError()) == "KeyError"
    assert len(describe_failure(ValueError("x" * 5000))) == 600


NO_PROGRAM = [
    'IOException: Cannot run program "/no/python": error=2, No such file or directory\n\tat x\n',
    'IOException: Cannot run program "/no/python": Exec failed, error: 2 (No such file or directory) \n\tat x\n',
]


@pytest.mark.parametrize("text", NO_PROGRAM)
def test_a_program_that_is_missing_is_named(text: str) -> None:
    expected = "Spark can't start /no/python: No such file or directory"
    assert describe_failure(StreamingQueryException(f"Job aborted\nCaused by: java.io.{text}")) == expected


def test_what_a_python_process_says_that_does_not_start_is_handed_on() -> None:
    text = (
        "Job aborted\nError from python worker:\n  /usr/bin/python3: No module named pyspark\nPYTHONPATH was:\n  /x\n"
    )
    assert describe_failure(StreamingQueryException(text)) == (
        "a Python process of Spark's did not start: /usr/bin/python3: No module named pyspark"
    )


@pytest.mark.parametrize(
    "text",
    [
        *NO_PROGRAM,
        "Error from python worker:\n  /usr/bin/python3: No module named pyspark",
        "ModuleNotFoundError: No module named 'ottla'",
        "ImportError: libz.so.1: cannot open shared object file",
        "java.lang.ClassNotFoundException: org.x.Y",
        "java.lang.UnsatisfiedLinkError: /tmp/libzstd.so: failed to map segment",
        'Cannot run program "/a/python": error=13, Permission denied',
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11",
    ],
)
def test_what_spark_is_started_with_fails_again(text: str) -> None:
    assert is_lasting(StreamingQueryException(f"Job aborted\n{text}\n"))


def test_what_may_go_better_the_next_time_is_not_lasting() -> None:
    assert not is_lasting(StreamingQueryException("Python worker failed to connect back."))
    assert not is_lasting(StreamingQueryException("boom\n=== Streaming Query ===\nNo module named x"))
    assert not is_lasting(PermissionError(errno.EACCES, "Permission denied", "/data"))
    assert not is_lasting(ConnectionFailed("127.0.0.1:1 refused"))
