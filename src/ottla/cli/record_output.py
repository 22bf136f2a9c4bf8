"""The output of consumed records: stdout, buffered while more records come; its reader may go away."""

import os
import select
import sys
from collections.abc import Sequence

from ottla.cli.record_format import RecordPrinter
from ottla.clients.consumer.values import ConsumerRecord


class OutputClosed(Exception):
    """The reader of our stdout is gone, like `head` after its lines."""


class RecordOutput:
    """Owned by one command. `has_lost` if something that was written did not arrive."""

    def __init__(self, printer: RecordPrinter, *, is_unbuffered: bool) -> None:
        self.has_lost = False
        self._printer = printer
        self._is_unbuffered = is_unbuffered
        self._is_flushed = True
        self._state = select.poll()
        self._state.register(sys.stdout.fileno(), 0)  # errors only, which poll always reports

    def write(self, records: Sequence[ConsumerRecord]) -> None:
        try:
            if self._is_unbuffered:
                for record in records:
                    sys.stdout.buffer.write(self._printer([record]))
                    sys.stdout.buffer.flush()
            elif records:
                sys.stdout.buffer.write(self._printer(records))
                self._is_flushed = False
        except BrokenPipeError:
            self._lose()

    def flush(self) -> None:
        if self._is_flushed:
            return
        self._is_flushed = True
        try:
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            self._lose()

    def check(self) -> None:
        """A pipe shows without a write that its reader is gone: nobody waits for more output."""
        if self._state.poll(0):
            self._give_up()

    def _lose(self) -> None:
        self.has_lost = True
        self._give_up()

    def _give_up(self) -> None:
        # The interpreter flushes stdout again at its end, and would print an error that we know already.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        self._is_flushed = True
        raise OutputClosed
