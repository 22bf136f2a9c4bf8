"""One connection: its answers in the order of their requests, what it holds back, and its end.

The halves are its own: `Inbox` reads frames and starts them, `Outbox` sends. An idle connection holds no buffer.
"""

import socket

from ottla.core.errors import ProtocolViolation
from ottla.core.exchange import Answer, Deferred
from ottla.net.environment import Environment
from ottla.net.inbox import DRAINING, ENDED, HELD, LARGE_ANSWER_BYTES, OUTPUT_FULL, Inbox
from ottla.net.order import AnswerOrder, bytes_in_memory
from ottla.net.outbox import Outbox, Part

# Over these the connection starts no further request until half of it has been taken by the peer.
_QUEUED_MAX_BYTES = 4 * 1024 * 1024
_QUEUED_MAX_PARTS = 1024
_UNANSWERED_MAX = 1024
_DEFERRABLE_TURNS = 3  # in a row, then the connection is batched


class Connection:
    """Made by the server for an accepted socket, which it owns; gone after `close`, which may come at any time."""

    __slots__ = (
        "_deferrable_turns",
        "_end_reason",
        "_environment",
        "_inbox",
        "_is_authenticated",
        "_is_batched",
        "_is_watched",
        "_outbox",
        "_socket",
        "__weakref__",
        "address",
        "closing_reason",
        "handler_notes",
        "is_closed",
        "is_deferrable",
        "is_scheduled",
        "listener_name",
        "order",
    )

    def __init__(
        self,
        environment: Environment,
        sock: socket.socket,
        *,
        address: str,
        listener_name: str,
        is_authenticated: bool = True,
    ) -> None:
        # The peer, as handlers see it.
        self.address = address
        self.listener_name = listener_name
        self.handler_notes: object = None
        self.is_deferrable = False

        self._environment = environment
        self._socket = sock
        self.order = AnswerOrder()
        self.closing_reason: str | None = None  # set in a turn; the answers before it are still sent
        self._end_reason = ""  # why the peer sends no more
        self.is_closed = False
        self.is_scheduled = False
        self._is_watched = False
        self._is_batched = False  # read by `environment.batched` instead of the loop
        self._deferrable_turns = 0  # in a row

        self._outbox = Outbox(environment, sock, self)
        self._inbox = Inbox(environment, sock, self)
        self.is_authenticated = is_authenticated

    @property
    def fd(self) -> int:
        return self._socket.fileno()

    @property
    def is_authenticated(self) -> bool:
        """Before it is, only small frames are taken."""
        return self._is_authenticated

    @is_authenticated.setter
    def is_authenticated(self, value: bool) -> None:
        limits = self._environment.limits
        self._is_authenticated = value
        self._inbox.max_frame_bytes = limits.socket_request_max_bytes
        if not value:
            self._inbox.max_frame_bytes = min(limits.pre_auth_request_max_bytes, limits.socket_request_max_bytes)

    # Answers

    def send_only_answer(self, answer: Answer | Deferred | None) -> None:
        """The turn was one whole frame and nothing else, and this is its answer: end it in the fewest steps."""
        if self._is_batched and self.is_deferrable and type(answer) is bytes:
            self.is_deferrable = False
            self._environment.batched.answers.append((self, answer))
            return
        order = self.order
        if type(answer) is bytes and not order.entries and not self.is_closed:
            outbox = self._outbox
            outbox.send_one(answer)
            if outbox.parts or self._inbox.pause:
                self.end_turn([])
            elif self.is_deferrable:
                self._on_deferrable_turn()
            elif self._deferrable_turns:
                self._deferrable_turns = 0
            return
        ready: list[Part] = []
        if not self.place_answer(answer, ready) and len(order.entries) == 1 and not ready:
            self._deferrable_turns = 0
            return  # it is held, and there is nothing to send
        self.end_turn(ready)

    def place_answer(self, answer: Answer | Deferred | None, ready: list[Part]) -> bool:
        """Put an answer where its order wants it; False when the turn ends here."""
        if answer is None:
            return True
        order = self.order
        if isinstance(answer, Deferred):
            if not answer.is_complete:
                answer.on_complete = self._on_deferred_complete
                order.entries.append(answer)
                if answer.holds:
                    self._inbox.pause |= HELD
                    return False
                return len(order.entries) < _UNANSWERED_MAX
            if answer.answer is None:
                return True
            answer = answer.answer
        if order.entries:
            order.append(answer)
            return order.queued_bytes < LARGE_ANSWER_BYTES
        if isinstance(answer, list):
            ready.extend(answer)
            return len(ready) < _QUEUED_MAX_PARTS and bytes_in_memory(answer) < LARGE_ANSWER_BYTES
        ready.append(answer)
        return len(answer) < LARGE_ANSWER_BYTES

    def _on_deferred_complete(self, deferred: Deferred) -> None:
        deferred.on_complete = None
        if self.is_closed:
            return
        if deferred.holds:  # the only one: none is started behind it
            self._inbox.pause &= ~HELD
        answer = deferred.answer
        if answer is not None:
            self.order.queued_bytes += len(answer) if type(answer) is bytes else bytes_in_memory(answer)
        elif deferred.failure is not None:
            self.on_handler_failed(deferred.failure)
        # Not sent here: the caller may be the handler of another connection in the middle of its turn, and often
        # completes several answers of this one.
        if not self.is_scheduled:
            self.is_scheduled = True
            self._environment.schedule(self)

    def on_handler_failed(self, error: Exception) -> None:
        """A handler raised: the connection ends after the answers before this one.

        Every kind of error is caught, which is right nowhere else: a bug in a handler must cost the connection that
        met it, not the broker and everybody on it. It is logged with its traceback and counted.
        """
        if isinstance(error, ProtocolViolation):
            self._environment.log.info("%s: %s; closing the connection", self.address, error)
            self.closing_reason = "protocol violation"
        else:
            self._environment.log.bug(error, "%s: a handler failed; closing the connection", self.address)
            self.closing_reason = "handler failed"

    # Turns

    def schedule(self) -> None:
        if not self.is_scheduled:
            self.is_scheduled = True
            self._environment.schedule(self)

    def run(self) -> None:
        """Go on with what was left: answers that are complete, frames that were read but not started."""
        self.is_scheduled = False
        if self.is_closed:
            return
        order = self.order
        inbox = self._inbox
        has_input = not inbox.is_reading or inbox.unfinished.backlog is not None
        if not has_input and not inbox.pause and self.closing_reason is None:
            answer = order.take_only()
            if answer is not None:
                # Nearly always: a request held the connection, and its answer is all there is to do.
                self._outbox.send_one(answer)
                if self._outbox.parts:
                    self.end_turn([])
                return
        ready: list[Part] = []
        if order.entries:
            order.release(ready)
        if inbox.pause:
            self._maybe_leave_output_full()
        if has_input and not inbox.pause & ~ENDED and self.closing_reason is None:
            inbox.start_backlog(ready)
        self.end_turn(ready)

    def end_turn(self, ready: list[Part]) -> None:
        """Send what can be sent, and look whether the connection has to hold back, or is at its end."""
        if self.is_closed:
            return
        self._deferrable_turns = 0
        self.is_deferrable = False
        order = self.order
        if order.entries:
            order.release(ready)
        outbox = self._outbox
        if ready:
            outbox.send(ready)
            if self.is_closed:
                return
        inbox = self._inbox
        if self.closing_reason is not None:
            self.close(self.closing_reason)
        elif not (outbox.parts or order.entries or inbox.pause):
            return  # nearly always
        elif inbox.pause & ENDED and not outbox.parts and not inbox.unfinished.has_frame_in_backlog:
            self.close(self._end_reason)
        elif (
            outbox.queued_bytes + order.queued_bytes > _QUEUED_MAX_BYTES
            or len(outbox.parts) > _QUEUED_MAX_PARTS
            or len(order.entries) >= _UNANSWERED_MAX
        ):
            inbox.pause |= OUTPUT_FULL
        elif inbox.pause & DRAINING and not order.entries and not outbox.parts:
            self.close("stopped")

    def on_output_drained(self) -> None:
        if self._inbox.pause & (OUTPUT_FULL | DRAINING | ENDED):
            self.schedule()

    def _maybe_leave_output_full(self) -> None:
        if (
            self._inbox.pause & OUTPUT_FULL
            and self._outbox.queued_bytes + self.order.queued_bytes <= _QUEUED_MAX_BYTES // 2
            and len(self._outbox) <= _QUEUED_MAX_PARTS // 2
            and len(self.order) <= _UNANSWERED_MAX // 2
        ):
            self._inbox.pause &= ~OUTPUT_FULL
            self._inbox.unfinished.restart_clock()  # the time in which we didn't read wasn't the peer's

    # The batched mode

    def _on_deferrable_turn(self) -> None:
        """After some of them in a row the connection is batched, until there is a turn of another kind."""
        if self.is_closed:
            return  # by the answer, which found the peer gone
        self.is_deferrable = False
        self._deferrable_turns += 1
        if self._deferrable_turns == _DEFERRABLE_TURNS and self._environment.batched.add(self):
            self._is_batched = True
            self._inbox.stop_reading()

    def on_batched_readable(self) -> None:
        """As `Inbox.on_readable`; the caller sends the answer of a deferrable request."""
        self._inbox.on_readable()
        if not self._deferrable_turns and not self.is_closed:
            self._end_batched()

    def send_batched(self, answer: bytes) -> None:
        """The answer of the turn before; there is nothing else to send."""
        outbox = self._outbox
        outbox.send_one(answer)
        if outbox.parts:
            self.end_turn([])
            self._end_batched()

    def _end_batched(self) -> None:
        self._is_batched = False
        self._environment.batched.remove(self)
        self._inbox.start_reading()

    # What the sweep looks at

    def watch(self) -> None:
        """Have every sweep look at this connection, until there is nothing unfinished about it."""
        if not self._is_watched:
            self._is_watched = True
            self._environment.watched.append(self)

    def unwatch(self) -> None:
        self._is_watched = False

    @property
    def is_busy(self) -> bool:
        """Whether something is owed to the peer; such a connection isn't idle however long it takes."""
        inbox = self._inbox
        return bool(self.order or self._outbox or inbox.unfinished.backlog is not None or inbox.pause)

    @property
    def last_active_tick(self) -> int:
        return self._inbox.last_active_tick

    @property
    def unfinished_frame_bytes(self) -> int:
        """How much of a frame has come that isn't complete; 0 when none has begun, or when it is we who don't read."""
        inbox = self._inbox
        if not inbox.is_reading or inbox.pause:
            return 0
        return inbox.unfinished.unfinished_frame_bytes

    @property
    def frame_started_tick(self) -> int:
        return self._inbox.unfinished.started_tick

    @property
    def output_stuck_since_tick(self) -> int | None:
        return self._outbox.last_progress_tick if self._outbox.is_stuck else None

    @property
    def ended_since_tick(self) -> int | None:
        """Since when nothing has moved of what a peer left behind; None while the peer is there."""
        if not self._inbox.pause & ENDED:
            return None
        return max(self._inbox.last_active_tick, self._outbox.last_progress_tick)

    # The end

    def on_peer_end(self, reason: str, ready: list[Part] | None = None) -> None:
        """The peer is gone, or has closed its half: what it had sent is worked off first, in order.

        With acks=0 that is all a producer has that closes right after its last record. Requests that only wait for
        something are not waited for: their answer is of no use any more.
        """
        if ready:
            self._outbox.send(ready)
            ready.clear()
        inbox = self._inbox
        if self._outbox.is_stuck or inbox.unfinished.has_frame_in_backlog:
            inbox.pause |= ENDED
            self._end_reason = reason
            inbox.stop_reading()
            inbox.last_active_tick = self._environment.tick
            self.watch()
            self.schedule()
        else:
            self.close(reason)

    def on_reset(self) -> None:
        self._outbox.drop()
        self.on_peer_end("connection reset")

    def drain(self) -> None:
        """Start no more requests; close as soon as those that were started are answered."""
        self._inbox.pause |= DRAINING
        if not self.order and not self._outbox:
            self.close("stopped")

    def close(self, reason: str) -> None:
        """Close now: nothing more is sent, buffers go back, handlers that wait give up."""
        if self.is_closed:
            return
        self.is_closed = True
        environment = self._environment
        if self._is_batched:
            environment.batched.remove(self)
        self._inbox.stop_reading()
        self._outbox.close()
        self._socket.close()
        environment.metrics.count_closed(reason)
        self._inbox.close()
        environment.forget(self)
        for deferred in self.order.close():
            deferred.on_complete = None  # a handler that keeps it longer must not keep this connection
            try:
                deferred.abandon()
            except Exception as error:  # noqa: BLE001
                # As in `on_handler_failed`: it is a handler's code, and the other requests have to give up too.
                environment.log.bug(error, "%s: a handler failed on the end of its connection", self.address)
