"""What the network and the request handlers say to each other.

A handler is one synchronous call: it gets a frame and gives the answer, or a `Deferred` that it completes later. It
never sees a socket; the network never looks into a frame. Everything runs on the event loop's thread.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from ottla.core.disk import FileSlice
from ottla.core.types import Buffer

# An answer is one whole frame, its 4-byte size included: a single buffer, or parts that are sent one after the other.
Answer: TypeAlias = Buffer | list[Buffer | FileSlice]


class Deferred:
    """The place of an answer that is not known yet, in the order of its connection.

    `holds=True` stops the connection from starting its next request until this one is answered (a waiting fetch);
    with False later requests start, and only their answers wait (a produce that waits for its replicas).
    Completing it after the connection is gone does nothing. `None` as the answer means: nothing is sent.
    """

    __slots__ = ("holds", "is_complete", "answer", "on_complete", "on_abandon", "failure")

    def __init__(self, *, holds: bool) -> None:
        self.holds = holds
        self.is_complete = False
        self.answer: Answer | None = None
        self.failure: Exception | None = None
        self.on_complete: Callable[[Deferred], None] | None = None  # set by the network
        self.on_abandon: Callable[[], None] | None = None  # set by the handler: the peer is gone, stop waiting

    def complete(self, answer: Answer | None) -> None:
        """Hand over the answer; only the first call counts."""
        if self.is_complete:
            return
        self.is_complete = True
        self.answer = answer
        self.on_abandon = None
        if self.on_complete is not None:
            self.on_complete(self)

    def fail(self, error: Exception) -> None:
        """There will be no answer: the connection is closed, as if the handler had raised `error` at once."""
        if not self.is_complete:
            self.failure = error
            self.complete(None)

    def abandon(self) -> None:
        """Called by the network when the connection closes before the answer."""
        if self.is_complete:
            return
        self.is_complete = True
        if self.on_abandon is not None:
            self.on_abandon()
            self.on_abandon = None


class Peer(Protocol):
    """What a handler may know about the connection that a frame came from."""

    @property
    def address(self) -> str:
        """The peer's address, without its port."""
        ...

    @property
    def listener_name(self) -> str: ...

    # The handlers' own: None at first. The network keeps it and never looks at it.
    handler_notes: Any

    # Set by a handler whose answer may as well come some milliseconds later: with nothing but such requests for a
    # while, the connection is read together with others like it (net/batched.py).
    is_deferrable: bool


# (frame without its size, peer) -> the answer; None sends nothing. The frame is writable and valid only during the
# call: a handler that keeps bytes of it copies them. Raising ProtocolViolation closes the connection.
FrameHandler: TypeAlias = Callable[[memoryview, Peer], "Answer | Deferred | None"]
