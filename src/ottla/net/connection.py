"""One connection: frames in, each handed to the handler in order, answers out in the same order.

One turn is one sip from the socket and the frames that are complete with it, up to a bound; then it's the others' turn.
An idle connection holds no buffer. Never looks into a frame.
"""

import socket
from struct import Struct

from ottla.core.errors import ProtocolViolation
from ottla.core.exchange import Answer, Deferred
from ottla.net.environment import CARRY_FRAME_MAX_BYTES, Environment
from ottla.net.foreign_protocol import describe_bad_size, looks_foreign
from ottla.net.order import AnswerOrder, bytes_in_memory
from ottla.net.outbox import Outbox, Part
from ottla.net.unfinished_input import UnfinishedInput

_FRAMES_PER_TURN_MAX = 64
_BODY_SIP_MAX_BYTES = 1024 * 1024

# Over these the connection starts no further request until half of it has been taken by the peer.
_QUEUED_MAX_BYTES = 4 * 1024 * 1024
_QUEUED_MAX_PARTS = 1024
_UNANSWERED_MAX = 1024
_PATIENT_TURNS = 3  # in a row, then the connection is quiet
_LARGE_ANSWER_BYTES = 256 * 1024  # ends the turn: what it fills is looked at before the next frame starts

# Why no frame is started, as bits.
_HELD = 1  # a request holds the connection until it is answered
_OUTPUT_FULL = 2
_NO_MEMORY = 4  # in the budget's line
_DRAINING = 8
_ENDED = 16  # the peer sends no more; the frames that were read before are still started

_unpack_size = Struct(">i").unpack_from


class Connection:
    """Made by the server for an accepted socket, which it owns; gone after `close`, which may come at any time."""

    __slots__ = (
        "_closing_reason",
        "_end_reason",
        "_environment",
        "_held",
        "_input",
        "_is_authenticated",
        "_is_quiet",
        "_is_reading",
        "_is_scheduled",
        "_is_watched",
        "_max_frame_bytes",
        "_order",
        "_outbox",
        "_patient_turns",
        "_pause",
        "_socket",
        "__weakref__",
        "address",
        "client_software",
        "fd",
        "is_closed",
        "is_patient",
        "last_active_tick",
        "listener_name",
        "produce_head_end",
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
        self._environment = environment
        self._socket = sock
        self.fd = sock.fileno()
        self.address = address
        self.listener_name = listener_name
        self.client_software = ""
        self.produce_head_end = 0
        self.is_patient = False
        self.is_authenticated = is_authenticated
        self.is_closed = False
        self.last_active_tick = environment.tick

        self._order = AnswerOrder()
        self._outbox = Outbox(environment, sock, self)
        self._held: Deferred | None = None
        self._pause = 0
        self._closing_reason: str | None = None  # set in a turn; the answers before it are still sent
        self._end_reason = ""  # why the peer sends no more
        self._is_reading = True
        self._is_scheduled = False
        self._is_watched = False
        self._is_quiet = False  # looked after by `environment.quiet` instead of the loop
        self._patient_turns = 0  # in a row

        self._input = UnfinishedInput(environment)
        environment.loop.add_reader(self.fd, self._on_readable)

    @property
    def is_authenticated(self) -> bool:
        """Before it is, only small frames are taken."""
        return self._is_authenticated

    @is_authenticated.setter
    def is_authenticated(self, value: bool) -> None:
        limits = self._environment.limits
        self._is_authenticated = value
        self._max_frame_bytes = limits.socket_request_max_bytes
        if not value:
            self._max_frame_bytes = min(limits.pre_auth_request_max_bytes, limits.socket_request_max_bytes)

    # Reading

    def _on_readable(self) -> None:
        if self._pause or self._is_scheduled:
            self._on_readable_while_waiting()
            return
        environment = self._environment
        self.last_active_tick = environment.tick
        unfinished = self._input
        if unfinished.frame is not None or unfinished.carry:
            self._read_on()
            return
        target = environment.tight_sip if environment.budget.is_tight else environment.sip
        count = self._receive_into(target)
        if not count:
            return
        unfinished.started_tick = environment.tick
        scratch = environment.scratch
        size = count - 4
        if 0 < size <= self._max_frame_bytes and _unpack_size(scratch)[0] == size:
            self._start_only_frame(scratch[4:count])  # nearly always
            return
        ready: list[Part] = []
        self._start_frames(scratch, count, ready)
        if count == len(target) and unfinished.frame is not None:
            # More is surely there; going round the loop for it would cost more than reading it.
            self._receive_body(ready)
        self._end_turn(ready)

    def _read_on(self) -> None:
        """What was read before is not a whole frame: the rest of it comes now."""
        environment = self._environment
        ready: list[Part] = []
        unfinished = self._input
        if unfinished.frame is not None:
            self._receive_body(ready)
        else:
            target = environment.tight_sip if environment.budget.is_tight else environment.sip
            carry = unfinished.carry
            start = len(carry)
            environment.scratch[:start] = carry
            target = environment.scratch[start : start + len(target)]
            count = self._receive_into(target)
            if not count:
                return
            unfinished.carry = b""
            self._start_frames(environment.scratch, start + count, ready)
            if count == len(target) and unfinished.frame is not None:
                self._receive_body(ready)
        self._end_turn(ready)

    def _on_readable_while_waiting(self) -> None:
        if self._is_scheduled and not self._pause:
            return  # what was read before comes first, on the next turn of the loop
        try:
            is_end = not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            self._on_reset()
            return
        if is_end:
            self._on_peer_end("peer closed")
            return
        # The reader is taken away only when bytes do come, so a fetch that waits costs no calls here, and the end of
        # a peer is seen while its request waits.
        self._stop_reading()

    def _stop_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._environment.loop.remove_reader(self.fd)

    def _on_peer_end(self, reason: str) -> None:
        """The peer is gone, or has closed its half: what it had sent is worked off first, in order.

        With acks=0 that is all a producer has that closes right after its last record. Requests that only wait for
        something are not waited for: their answer is of no use any more.
        """
        if self._outbox.is_stuck or self._input.has_frame_in_backlog:
            self._pause |= _ENDED
            self._end_reason = reason
            self._stop_reading()
            self.last_active_tick = self._environment.tick
            self.watch()
            self._schedule()
        else:
            self.close(reason)

    def _receive_into(
        self, target: memoryview, further: memoryview | None = None, *, ready: list[Part] | None = None
    ) -> int:
        """The bytes received, first into `target`; 0 when there are none now or the connection has ended.

        `ready` are the answers of this turn so far: a peer that has only closed its half still gets them.
        """
        try:
            if further is None:
                count = self._socket.recv_into(target)
            else:
                count = self._socket.recvmsg_into((target, further))[0]
        except BlockingIOError:
            return 0
        except OSError:
            self._on_reset()
            return 0
        if not count:
            is_cut = self._input.unfinished_frame_bytes > 0
            if ready:
                self._outbox.send(ready)
                ready.clear()
            self._on_peer_end("peer closed inside a frame" if is_cut else "peer closed")
            return 0
        self._environment.metrics.bytes_in += count
        return count

    def _receive_body(self, ready: list[Part]) -> None:
        """Read on in a larger frame, straight to its place, and what comes after it into the scratch.

        When it is complete it is started, and the frames behind it.
        """
        unfinished = self._input
        frame = unfinished.frame
        assert frame is not None
        filled = unfinished.frame_filled
        size = unfinished.frame_size
        if size - filled > _BODY_SIP_MAX_BYTES:
            count = self._receive_into(frame[filled : filled + _BODY_SIP_MAX_BYTES], ready=ready)
        else:
            environment = self._environment
            further = environment.tight_sip if environment.budget.is_tight else environment.sip
            count = self._receive_into(frame[filled:size], further, ready=ready)
        if not count:
            return
        behind_bytes = filled + count - size
        if behind_bytes < 0:
            unfinished.frame_filled = filled + count
            return
        goes_on = self._start_frame(frame[:size], ready)
        if self.is_closed:
            return
        unfinished.drop_frame(frame)
        if not behind_bytes:
            return
        if goes_on:
            unfinished.restart_clock()
            self._start_frames(self._environment.scratch, behind_bytes, ready)
        elif self._closing_reason is None:
            self._keep_backlog(self._environment.scratch[:behind_bytes])

    def _start_only_frame(self, frame: memoryview) -> None:
        """A turn that is one whole frame and nothing else, in the fewest steps."""
        environment = self._environment
        environment.metrics.frames += 1
        try:
            answer = environment.handler(frame, self)
        except Exception as error:  # noqa: BLE001  (see `_end_for`)
            self._end_for(error)
            self._end_turn([])
            return
        if self._is_quiet and self.is_patient and type(answer) is bytes:
            self.is_patient = False
            environment.quiet.answers.append((self, answer))
            return
        order = self._order
        if type(answer) is bytes and not order.entries and not self.is_closed:
            outbox = self._outbox
            outbox.send_one(answer)
            if outbox.parts or self._pause:
                self._end_turn([])
            elif self.is_patient:
                self._on_patient_turn()
            elif self._patient_turns:
                self._patient_turns = 0
            return
        ready: list[Part] = []
        if not self._place_answer(answer, ready) and len(order.entries) == 1 and not ready:
            self._patient_turns = 0
            return  # it is held, and there is nothing to send
        self._end_turn(ready)

    def _start_frames(self, view: memoryview, end: int, ready: list[Part]) -> None:
        """Start the complete frames of view[:end], as many as a turn may have, and keep the rest."""
        position = 0
        frames_left = _FRAMES_PER_TURN_MAX
        handle = self._environment.handler
        metrics = self._environment.metrics
        waiting = self._order.entries
        while end - position >= 4:
            size = _unpack_size(view, position)[0]
            if not 0 < size <= self._max_frame_bytes:
                self._refuse_size(size)
                return
            body = position + 4
            next_position = body + size
            if next_position > end:
                if position:
                    self._input.restart_clock()  # but not for one that goes on: its bytes may come one by one
                self._keep_frame_start(view, position, end, size)
                return
            if not frames_left:
                self._keep_backlog(view[position:end])
                return
            frames_left -= 1
            position = next_position
            metrics.frames += 1
            try:
                answer = handle(view[body:next_position], self)
            except Exception as error:  # noqa: BLE001  (see `_end_for`)
                self._end_for(error)
                return
            if type(answer) is bytes and len(answer) < _LARGE_ANSWER_BYTES and not waiting:
                ready.append(answer)  # nearly always
            elif not self._place_answer(answer, ready):
                if position < end and not self.is_closed and self._closing_reason is None:
                    self._keep_backlog(view[position:end])
                return
        if position < end:
            if position:
                self._input.restart_clock()
            self._keep_carry(view[position:end])

    def _end_for(self, error: Exception) -> None:
        """A handler raised: the connection ends after the answers before this one.

        Every kind of error is caught, which is right nowhere else: a bug in a handler must cost the connection that
        met it, not the broker and everybody on it. It is logged with its traceback and counted.
        """
        if isinstance(error, ProtocolViolation):
            self._environment.log.info("%s: %s; closing the connection", self.address, error)
            self._closing_reason = "protocol violation"
        else:
            self._environment.log.bug(error, "%s: a handler failed; closing the connection", self.address)
            self._closing_reason = "handler failed"

    def _start_frame(self, frame: memoryview, ready: list[Part]) -> bool:
        """Hand one frame to the handler and its answer to its place; False when the turn ends here."""
        self._environment.metrics.frames += 1
        try:
            answer = self._environment.handler(frame, self)
        except Exception as error:  # noqa: BLE001  (see `_end_for`)
            self._end_for(error)
            return False
        return self._place_answer(answer, ready)

    def _place_answer(self, answer: Answer | Deferred | None, ready: list[Part]) -> bool:
        """Put an answer where its order wants it; False when the turn ends here."""
        if answer is None:
            return True
        order = self._order
        if isinstance(answer, Deferred):
            if not answer.is_complete:
                answer.on_complete = self._on_deferred_complete
                order.entries.append(answer)
                if answer.holds:
                    self._held = answer
                    self._pause |= _HELD
                    return False
                return len(order.entries) < _UNANSWERED_MAX
            if answer.answer is None:
                return True
            answer = answer.answer
        if order.entries:
            order.append(answer)
            return order.queued_bytes < _LARGE_ANSWER_BYTES
        if isinstance(answer, list):
            ready.extend(answer)
            return len(ready) < _QUEUED_MAX_PARTS and bytes_in_memory(answer) < _LARGE_ANSWER_BYTES
        ready.append(answer)
        return len(answer) < _LARGE_ANSWER_BYTES

    def _keep_frame_start(self, view: memoryview, position: int, end: int, size: int) -> None:
        """A frame isn't complete in view[position:end]: read on behind it, or into a buffer of its own."""
        if size <= CARRY_FRAME_MAX_BYTES:
            self._keep_carry(view[position:end])
        elif looks_foreign(size):
            self._refuse_size(size)
        elif self._input.begin_frame(self, size=size, start=view[position + 4 : end]):
            self.watch()
        else:
            self._pause |= _NO_MEMORY
            self._keep_backlog(view[position:end])

    def _keep_carry(self, rest: memoryview) -> None:
        self._input.keep_carry(rest)
        self.watch()

    def _keep_backlog(self, rest: memoryview) -> None:
        self._input.keep_backlog(rest)
        self._schedule()

    def _refuse_size(self, size: int) -> None:
        reason = describe_bad_size(size, max_bytes=self._max_frame_bytes, is_authenticated=self._is_authenticated)
        self._environment.log.info("%s: %s; closing the connection", self.address, reason)
        self._closing_reason = "bad frame size"

    # Turns and answers

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._environment.schedule(self)

    def run(self) -> None:
        """Go on with what was left: answers that are complete, frames that were read but not started."""
        self._is_scheduled = False
        if self.is_closed:
            return
        order = self._order
        unfinished = self._input
        if self._is_reading and not self._pause and unfinished.backlog is None and self._closing_reason is None:
            answer = order.take_only()
            if answer is not None:
                # Nearly always: a request held the connection, and its answer is all there is to do.
                self._outbox.send_one(answer)
                if self._outbox.parts:
                    self._end_turn([])
                return
        ready: list[Part] = []
        if order.entries:
            order.release(ready)
        if self._pause:
            self._maybe_leave_output_full()
        if not self._pause & ~_ENDED and self._closing_reason is None:
            backlog = unfinished.backlog
            if backlog is not None:
                self.last_active_tick = self._environment.tick
                unfinished.backlog = None
                unfinished.restart_clock()
                self._start_frames(memoryview(backlog), len(backlog), ready)
                unfinished.drop_backlog(backlog)
            if not self._is_reading and not self._is_scheduled and not self._pause:
                self._is_reading = True
                self._environment.loop.add_reader(self.fd, self._on_readable)
        self._end_turn(ready)

    def _end_turn(self, ready: list[Part]) -> None:
        if self.is_closed:
            return
        self._patient_turns = 0
        self.is_patient = False
        order = self._order
        if order.entries:
            order.release(ready)
        outbox = self._outbox
        if ready:
            outbox.send(ready)
            if self.is_closed:
                return
        if self._closing_reason is not None:
            self.close(self._closing_reason)
        elif not (outbox.parts or order.entries or self._pause):
            return  # nearly always
        elif self._pause & _ENDED and not outbox.parts and not self._input.has_frame_in_backlog:
            self.close(self._end_reason)
        elif (
            outbox.queued_bytes + order.queued_bytes > _QUEUED_MAX_BYTES
            or len(outbox.parts) > _QUEUED_MAX_PARTS
            or len(order.entries) >= _UNANSWERED_MAX
        ):
            self._pause |= _OUTPUT_FULL
        elif self._pause & _DRAINING and not order.entries and not outbox.parts:
            self.close("stopped")

    def _on_patient_turn(self) -> None:
        """After some of them in a row the connection is quiet, until there is a turn of another kind."""
        if self.is_closed:
            return  # by the answer, which found the peer gone
        self.is_patient = False
        self._patient_turns += 1
        if self._patient_turns == _PATIENT_TURNS and self._environment.quiet.add(self):
            self._is_quiet = True
            self._environment.loop.remove_reader(self.fd)

    def on_quiet_readable(self) -> None:
        """As `_on_readable`, from those who look after quiet connections, and who send a patient request's answer."""
        self._on_readable()
        if not self._patient_turns and not self.is_closed:
            self._end_quiet()

    def send_quietly(self, answer: bytes) -> None:
        """The answer of the turn before; there is nothing else to send."""
        outbox = self._outbox
        outbox.send_one(answer)
        if outbox.parts:
            self._end_turn([])
            self._end_quiet()

    def _end_quiet(self) -> None:
        self._is_quiet = False
        self._environment.quiet.remove(self)
        self._environment.loop.add_reader(self.fd, self._on_readable)

    def _on_deferred_complete(self, deferred: Deferred) -> None:
        deferred.on_complete = None
        if self.is_closed:
            return
        if self._held is deferred:
            self._held = None
            self._pause &= ~_HELD
        answer = deferred.answer
        if answer is not None:
            self._order.queued_bytes += len(answer) if type(answer) is bytes else bytes_in_memory(answer)
        elif deferred.failure is not None:
            self._end_for(deferred.failure)
        # Not sent here: the caller may be the handler of another connection in the middle of its turn, and often
        # completes several answers of this one.
        if not self._is_scheduled:
            self._is_scheduled = True
            self._environment.schedule(self)

    def on_output_drained(self) -> None:
        if self._pause & (_OUTPUT_FULL | _DRAINING | _ENDED):
            self._schedule()

    def on_output_refused(self) -> None:
        self._on_reset()

    def _on_reset(self) -> None:
        self._outbox.drop()
        self._on_peer_end("connection reset")

    def _maybe_leave_output_full(self) -> None:
        if (
            self._pause & _OUTPUT_FULL
            and self._outbox.queued_bytes + self._order.queued_bytes <= _QUEUED_MAX_BYTES // 2
            and len(self._outbox) <= _QUEUED_MAX_PARTS // 2
            and len(self._order) <= _UNANSWERED_MAX // 2
        ):
            self._pause &= ~_OUTPUT_FULL
            self._input.restart_clock()  # the time in which we didn't read wasn't the peer's

    def on_budget_granted(self, length: int) -> None:
        self._input.granted_bytes = length
        self._pause &= ~_NO_MEMORY
        self._schedule()

    # Life

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
        return bool(self._order or self._outbox or self._input.backlog is not None or self._pause)

    @property
    def unfinished_frame_bytes(self) -> int:
        """How much of a frame has come that isn't complete; 0 when none has begun, or when it is we who don't read."""
        if not self._is_reading or self._pause:
            return 0
        return self._input.unfinished_frame_bytes

    @property
    def ended_since_tick(self) -> int | None:
        """Since when nothing has moved of what a peer left behind; None while the peer is there."""
        if not self._pause & _ENDED:
            return None
        return max(self.last_active_tick, self._outbox.last_progress_tick)

    @property
    def frame_started_tick(self) -> int:
        return self._input.started_tick

    @property
    def output_stuck_since_tick(self) -> int | None:
        return self._outbox.last_progress_tick if self._outbox.is_stuck else None

    def drain(self) -> None:
        """Start no more requests; close as soon as those that were started are answered."""
        self._pause |= _DRAINING
        if not self._order and not self._outbox:
            self.close("stopped")

    def close(self, reason: str) -> None:
        """Close now: nothing more is sent, buffers go back, handlers that wait are told."""
        if self.is_closed:
            return
        self.is_closed = True
        environment = self._environment
        if self._is_quiet:
            environment.quiet.remove(self)
        elif self._is_reading:
            environment.loop.remove_reader(self.fd)
        self._outbox.close()
        self._socket.close()
        environment.metrics.count_closed(reason)
        if self._pause & _NO_MEMORY:
            environment.budget.leave_line(self)
        self._input.drop_all()
        environment.forget(self)
        self._held = None
        for deferred in self._order.close():
            deferred.on_complete = None  # whoever keeps it a while longer doesn't keep this connection with it
            try:
                deferred.abandon()
            except Exception as error:  # noqa: BLE001
                # As in `_end_for`: it is a handler's code, and the other requests have to be told too.
                environment.log.bug(error, "%s: a handler failed on the end of its connection", self.address)
