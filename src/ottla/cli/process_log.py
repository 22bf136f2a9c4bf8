"""The process's own log, on standard error: lines for people, or a JSON object on each line for machines."""

import logging
import sys
import time
from collections.abc import Iterable

_HUMAN = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"

# Every record has these; `extra` adds others.
_OWN_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"asctime", "message", "taskName"}


class JsonFormatter(logging.Formatter):
    """`ts` (UTC), `level`, `logger`, `message`, `exception` if there is one, and the fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        from json import dumps

        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, object] = {
            "ts": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            fields["stack"] = self.formatStack(record.stack_info)
        for name, value in vars(record).items():
            if name not in _OWN_FIELDS and name not in fields:
                fields[name] = value
        return dumps(fields, ensure_ascii=False, default=str)


def start_logging(*, log_format: str, level: str, levels: Iterable[tuple[str, str]] = ()) -> None:
    """Start logging; `levels` are (logger, level) for loggers with another level."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else logging.Formatter(_HUMAN))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    for name, logger_level in levels:
        logging.getLogger(name).setLevel(logger_level)
