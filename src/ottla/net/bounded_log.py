"""A log that a misbehaving peer can't fill: so many lines per interval, then only their number."""

import logging

_logger = logging.getLogger("ottla.net")

_LINES_PER_INTERVAL_MAX = 20


class BoundedLog:
    """Owned by the server, whose sweep starts the next interval."""

    __slots__ = ("_lines_left", "suppressed")

    def __init__(self) -> None:
        self._lines_left = _LINES_PER_INTERVAL_MAX
        self.suppressed = 0

    def info(self, message: str, *arguments: object) -> None:
        """Log at INFO, or only count."""
        if self._lines_left:
            self._lines_left -= 1
            _logger.info(message, *arguments)
        else:
            self.suppressed += 1

    def bug(self, message: str, *arguments: object) -> None:
        """Log the exception being handled, with its traceback; or only count."""
        if self._lines_left:
            self._lines_left -= 1
            _logger.exception(message, *arguments)
        else:
            self.suppressed += 1

    def start_interval(self) -> None:
        if self.suppressed:
            _logger.info("%d more lines about closed or refused connections were left out", self.suppressed)
            self.suppressed = 0
        self._lines_left = _LINES_PER_INTERVAL_MAX
