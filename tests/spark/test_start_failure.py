"""Why Spark did not start, out of what Java says."""

import pytest

from ottla.spark.start_failure import first_cause, first_complaint

BIND = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: java.net.BindException: Cannot assign requested address: Service 'sparkDriver' failed after 16 retries!
\tat java.base/sun.nio.ch.Net.bind0(Native Method)
Caused by: java.lang.IllegalStateException: later
"""


def test_what_was_raised_is_told_without_its_way() -> None:
    expected = "BindException: Cannot assign requested address: Service 'sparkDriver' failed after 16 retries!"
    assert first_cause(BIND) == expected
    assert first_cause("[CODE] one line\nmore") == "[CODE] one line"
    assert first_cause("") == ""


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            "Picked up JAVA_TOOL_OPTIONS: -Dx=y\nInvalid maximum heap size: -Xmxmuch\n"
            "Error: Could not create the Java Virtual Machine.\n",
            "Invalid maximum heap size: -Xmxmuch",
        ),
        (
            "Error occurred during initialization of VM\nCould not reserve enough space for 99g object heap\n",
            "Could not reserve enough space for 99g object heap",
        ),
        (
            "WARNING: Using incubator modules: jdk.incubator.vector\n26/11/16 20:06:17.586 WARN Loader: not native\n"
            "26/11/16 20:06:18.000 ERROR SparkSubmit: no such class\n",
            "no such class",
        ),
        (
            "26/11/16 20:06:17.586 WARN Client: no answer\njava.io.IOException: Connection refused\n\tat x\n"
            "26/11/16 20:07:18.000 ERROR Backend: All masters are unresponsive! Giving up.\n",
            "All masters are unresponsive! Giving up.",
        ),
        (
            "26/11/16 20:06:17.586 ERROR SparkContext: Error initializing SparkContext.\n"
            "java.net.BindException: Cannot assign requested address\n\tat x\n",
            "BindException: Cannot assign requested address",
        ),
        (
            "Error: A JNI error has occurred, please check your installation and try again\n"
            'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n',
            "OutOfMemoryError: Java heap space",
        ),
        ("env: 'bash': No such file or directory\n", "env: 'bash': No such file or directory"),
        (
            'Exception in thread "main" java.lang.IllegalArgumentException: pyspark does not support this\n\tat x\n',
            "IllegalArgumentException: pyspark does not support this",
        ),
    ],
)
def test_the_first_line_that_complains_is_found_in_a_log(log: str, expected: str) -> None:
    assert first_complaint(log) == expected


def test_a_log_without_a_complaint_has_none() -> None:
    assert first_complaint("\nWARNING: Using incubator modules: jdk.incubator.vector\n") is None
