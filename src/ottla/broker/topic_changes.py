"""A request that changes topics and waits for the changes: answered when all are done, or when its time is over.

A change that the request no longer waits for goes on all the same; the client sees its end in the metadata.
"""

from collections.abc import Callable

from ottla.broker.api import Reply
from ottla.core.errors import ErrorCode
from ottla.purgatory.purgatory import DelayedOperation
from ottla.replication.replicas import Waiting

TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT
TIMED_OUT_MESSAGE = "not done within timeout.ms; it goes on, ask for metadata to see its end"


class TopicChanges(DelayedOperation):
    """`open_changes` are counted down by `settle`; `send` is called once, with whatever is settled by then."""

    __slots__ = ("_send", "open_changes")

    def __init__(self, open_changes: int, send: Callable[[], None]) -> None:
        super().__init__()
        self.open_changes = open_changes
        self._send = send

    def settle(self) -> None:
        """One change is done, or refused."""
        self.open_changes -= 1
        self.try_complete()

    def try_complete(self) -> bool:
        return not self.open_changes and self.force_complete()

    def on_complete(self) -> None:
        self._send()

    def wait(self, waiting: Waiting, reply: Reply, *, timeout_ms: int) -> Reply:
        """To be called when every change was begun; those that were settled at once count."""
        if not self.is_completed:
            waiting.watch(waiting.topic_changes, self, (), timeout_ms)
            reply.deferred.on_abandon = self.abandon
        return reply
