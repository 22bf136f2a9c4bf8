"""Why a query failed, in one line."""

import errno

from pyspark.errors import PythonException, StreamingQueryException

from ottla.clients.errors import ConnectionFailed
from ottla.pipeline.running.failures import describe_failure

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
