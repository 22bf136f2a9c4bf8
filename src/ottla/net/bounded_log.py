"""A log that a misbehaving peer can't fill: a bounded number of lines per interval, then only a count."""

import logging

_logger = logging.getLogger("ottla.net")

_LINES_PER_INTERVAL_MAX = 20
_BUGS_PER_INTERVAL_MAX = 5


class BoundedLog:
    """Owned by the server, whose sweep starts the next interval."""

    __slots__ = ("_bugs_left", "_lines_left", "suppressed", "suppressed_bugs")

    def __init__(self) -> None:
        self._lines_left = _LINES_PER_INTERVAL_MAX
        self._bugs_left = _BUGS_PER_INTERVAL_MAX
        self.suppressed = 0
        self.suppressed_bugs = 0

    def info(self, message: str, *arguments: object) -> None:
        """Log at INFO, or only count."""
        if self._lines_left:
            self._lines_left -= 1
            _logger.info(message, *arguments)
        else:
            self.suppressed += 1

    def bug(self, error: Exception, message: str, *arguments: object) -> None:
        """Log an exception with its traceback; or only count.

        Counted apart: the one line about a bug must not drown among those about bad peers.
        """
        if self._bugs_left:
            self._bugs_left -= 1
            _logger.error(message, *arguments, exc_info=error)
        else:
            self.suppressed_bugs += 1

    def start_interval(self) -> None:
        """Say how many lines were left out, and begin to count anew."""
        if self.suppressed:
            _logger.info("%d more lines about closed or refused connections were left out", self.suppressed)
            self.suppressed = 0
        if self.suppressed_bugs:
            _logger.error("%d more failures of handlers were left out", self.suppressed_bugs)
            self.suppressed_bugs = 0
        self._lines_left = _LINES_PER_INTERVAL_MAX
        self._bugs_left = _BUGS_PER_INTERVAL_MAX
