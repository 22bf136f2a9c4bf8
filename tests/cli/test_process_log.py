"""The process's own log in both forms."""

import json
import logging
import sys
from collections.abc import Iterator

import pytest

from ottla.cli.process_log import JsonFormatter, start_logging


@pytest.fixture
def _own_root() -> Iterator[None]:
    """The root logger as it was, afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("ottla.test.quiet").setLevel(logging.NOTSET)


def record(message: str, *arguments: object, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("ottla.test", logging.WARNING, __file__, 1, message, arguments, None)
    made.created, made.msecs = 1_700_000_000.25, 250.0
    vars(made).update(fields)
    return made


def test_a_line_is_one_object() -> None:
    line = JsonFormatter().format(record("%s is\nlost", "orders-0", partition=0, topic="orders"))
    assert "\n" not in line
    assert json.loads(line) == {
        "ts": "2023-11-14T22:13:20.250Z",
        "level": "WARNING",
        "logger": "ottla.test",
        "message": "orders-0 is\nlost",
        "partition": 0,
        "topic": "orders",
    }


def test_an_exception_is_a_field() -> None:
    made = record("failed")
    try:
        raise ValueError("why")
    except ValueError:
        made.exc_info = sys.exc_info()
    assert "ValueError: why" in json.loads(JsonFormatter().format(made))["exception"]


def test_fields_that_json_does_not_know_are_texts() -> None:
    assert json.loads(JsonFormatter().format(record("x", where=b"bytes")))["where"] == "b'bytes'"


@pytest.mark.usefixtures("_own_root")
def test_levels_are_by_logger(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging(log_format="json", level="INFO", levels=[("ottla.test.quiet", "ERROR")])
    logging.getLogger("ottla.test.quiet").warning("not seen")
    logging.getLogger("ottla.test").debug("not seen")
    logging.getLogger("ottla.test").info("seen")
    lines = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["message"] for line in lines] == ["seen"]


@pytest.mark.usefixtures("_own_root")
def test_people_get_lines(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging(log_format="human", level="INFO")
    logging.getLogger("ottla.test").info("seen")
    assert capsys.readouterr().err.endswith("INFO    ottla.test: seen\n")
