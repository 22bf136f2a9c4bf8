"""The receiving half of a connection: bytes of the socket become frames, and each frame goes to the handler, in order.

One turn is one read from the socket and the frames that are complete with it, up to a bound; then it is the others'.
What becomes of the answers, and when the connection ends, its owner decides. Never looks into a frame.
"""

import socket
from struct import Struct
from typing import Protocol

from ottla.core.exchange import Answer, Deferred, Peer
from ottla.net.environment import CARRY_FRAME_MAX_BYTES, Environment
from ottla.net.foreign_protocol import describe_bad_size, looks_foreign
from ottla.net.order import AnswerOrder
from ottla.net.outbox import Part
from ottla.net.unfinished_input import UnfinishedInput

_FRAMES_PER_TURN_MAX = 64
_BODY_READ_MAX_BYTES = 1024 * 1024
LARGE_ANSWER_BYTES = 256 * 1024  # ends the turn: what it fills is looked at before the next frame starts

# Why no frame is started, as bits of `Inbox.pause`.
HELD = 1  # a request holds the connection until it is answered
OUTPUT_FULL = 2
NO_MEMORY = 4  # in the budget's line
DRAINING = 8
ENDED = 16  # the peer sends no more; the frames that were read before are still started

_unpack_size = Struct(">i").unpack_from


class InboxOwner(Peer, Protocol):
    """The connection, as its inbox sees it. `ready` are the answers of a turn that can be sent at its end."""

    order: AnswerOrder
    is_closed: bool
    is_scheduled: bool  # goes on with what was read before, on the next turn of the loop
    closing_reason: str | None  # set: no further frame is started

    def place_answer(self, answer: Answer | Deferred | None, ready: list[Part]) -> bool:
        """Take one of several answers; False when the turn ends here."""
        ...

    def send_only_answer(self, answer: Answer | Deferred | None) -> None:
        """Take the answer of a turn that was one frame, and end the turn."""
        ...

    def end_turn(self, ready: list[Part]) -> None: ...

    def on_handler_failed(self, error: Exception) -> None: ...

    def on_peer_end(self, reason: str, ready: list[Part] | None = None) -> None:
        """The peer sends no more; it may still take answers."""
        ...

    def on_reset(self) -> None:
        """The peer is gone."""
        ...

    def schedule(self) -> None: ...

    def watch(self) -> None: ...


class Inbox:
    """Lives as long as its connection, which passes itself on through a turn: `close` may come within one."""

    __slots__ = (
        "_environment",
        "_owner",
        "_socket",
        "is_reading",
        "last_active_tick",
        "max_frame_bytes",
        "pause",
        "unfinished",
    )

    def __init__(self, environment: Environment, sock: socket.socket, owner: InboxOwner) -> None:
        self._environment = environment
        self._socket = sock
        self._owner: InboxOwner | None = owner
        self.unfinished = UnfinishedInput(environment)
        self.max_frame_bytes = environment.limits.socket_request_max_bytes
        self.pause = 0
        self.last_active_tick = environment.tick
        self.is_reading = False
        self.start_reading()

    def start_reading(self) -> None:
        self.is_reading = True
        self._environment.loop.add_reader(self._socket.fileno(), self.on_readable)

    def stop_reading(self) -> None:
        if self.is_reading:
            self.is_reading = False
            self._environment.loop.remove_reader(self._socket.fileno())

    def on_readable(self) -> None:
        owner = self._owner
        assert owner is not None
        if self.pause or owner.is_scheduled:
            self._on_readable_while_waiting(owner)
            return
        environment = self._environment
        self.last_active_tick = environment.tick
        unfinished = self.unfinished
        if unfinished.frame is not None or unfinished.carry:
            self._read_on(owner)
            return
        target = environment.tight_read_chunk if environment.budget.is_tight else environment.read_chunk
        try:  # as `_receive_into`, but this way is nearly always taken, and a call is a tenth of it
            count = self._socket.recv_into(target)
        except BlockingIOError:
            return
        except OSError:
            owner.on_reset()
            return
        if not count:
            owner.on_peer_end("peer closed")
            return
        environment.metrics.bytes_in += count
        unfinished.started_tick = environment.tick
        scratch = environment.scratch
        size = count - 4
        if 0 < size <= self.max_frame_bytes and _unpack_size(scratch)[0] == size:
            # Nearly always: one whole frame and nothing else, in the fewest steps.
            environment.metrics.frames += 1
            try:
                answer = environment.handler(scratch[4:count], owner)
            except Exception as error:  # noqa: BLE001  (see `Connection.on_handler_failed`)
                owner.on_handler_failed(error)
                owner.end_turn([])
                return
            owner.send_only_answer(answer)
            return
        ready: list[Part] = []
        self._start_frames(owner, scratch, count, ready)
        if count == len(target) and unfinished.frame is not None:
            # More is surely there; going round the loop for it would cost more than reading it.
            self._receive_body(owner, ready)
        owner.end_turn(ready)

    def start_backlog(self, ready: list[Part]) -> None:
        """Start the frames that were read but had to wait; then read on, if nothing has to wait any more."""
        owner = self._owner
        assert owner is not None
        unfinished = self.unfinished
        backlog = unfinished.backlog
        if backlog is not None:
            self.last_active_tick = self._environment.tick
            unfinished.backlog = None
            unfinished.restart_clock()
            self._start_frames(owner, memoryview(backlog), len(backlog), ready)
            unfinished.drop_backlog(backlog)
        if not self.is_reading and not owner.is_scheduled and not self.pause:
            self.start_reading()

    def on_budget_granted(self, length: int) -> None:
        self.unfinished.granted_bytes = length
        self.pause &= ~NO_MEMORY
        if self._owner is not None:
            self._owner.schedule()

    def close(self) -> None:
        """Give buffers and memory back, and drop the reference that holds the connection in memory."""
        if self.pause & NO_MEMORY:
            self._environment.budget.leave_line(self)
        self.unfinished.drop_all()
        self._owner = None

    # Bytes

    def _read_on(self, owner: InboxOwner) -> None:
        """What was read before is not a whole frame: the rest of it comes now."""
        environment = self._environment
        ready: list[Part] = []
        unfinished = self.unfinished
        if unfinished.frame is not None:
            self._receive_body(owner, ready)
        else:
            target = environment.tight_read_chunk if environment.budget.is_tight else environment.read_chunk
            carry = unfinished.carry
            start = len(carry)
            environment.scratch[:start] = carry
            target = environment.scratch[start : start + len(target)]
            count = self._receive_into(owner, target)
            if not count:
                return
            unfinished.carry = b""
            self._start_frames(owner, environment.scratch, start + count, ready)
            if count == len(target) and unfinished.frame is not None:
                self._receive_body(owner, ready)
        owner.end_turn(ready)

    def _on_readable_while_waiting(self, owner: InboxOwner) -> None:
        if owner.is_scheduled and not self.pause:
            return  # what was read before comes first, on the next turn of the loop
        try:
            is_end = not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            owner.on_reset()
            return
        if is_end:
            owner.on_peer_end("peer closed")
            return
        # The reader is taken away only when bytes do come, so a fetch that waits costs no calls here, and the end of
        # a peer is seen while its request waits.
        self.stop_reading()

    def _receive_into(
        self,
        owner: InboxOwner,
        target: memoryview,
        further: memoryview | None = None,
        *,
        ready: list[Part] | None = None,
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
            owner.on_reset()
            return 0
        if not count:
            is_cut = self.unfinished.unfinished_frame_bytes > 0
            owner.on_peer_end("peer closed inside a frame" if is_cut else "peer closed", ready)
            return 0
        self._environment.metrics.bytes_in += count
        return count

    def _receive_body(self, owner: InboxOwner, ready: list[Part]) -> None:
        """Read on in a larger frame, straight to its place, and what comes after it into the scratch.

        When it is complete it is started, and the frames behind it.
        """
        environment = self._environment
        unfinished = self.unfinished
        frame = unfinished.frame
        assert frame is not None
        filled = unfinished.frame_filled
        size = unfinished.frame_size
        if size - filled > _BODY_READ_MAX_BYTES:
            count = self._receive_into(owner, frame[filled : filled + _BODY_READ_MAX_BYTES], ready=ready)
        else:
            further = environment.tight_read_chunk if environment.budget.is_tight else environment.read_chunk
            count = self._receive_into(owner, frame[filled:size], further, ready=ready)
        if not count:
            return
        behind_bytes = filled + count - size
        if behind_bytes < 0:
            unfinished.frame_filled = filled + count
            return
        goes_on = self._start_frame(owner, frame[:size], ready)
        if owner.is_closed:
            return
        unfinished.drop_frame(frame)
        if not behind_bytes:
            return
        if goes_on:
            unfinished.restart_clock()
            self._start_frames(owner, environment.scratch, behind_bytes, ready)
        elif owner.closing_reason is None:
            self._keep_backlog(owner, environment.scratch[:behind_bytes])

    # Frames

    def _start_frame(self, owner: InboxOwner, frame: memoryview, ready: list[Part]) -> bool:
        """Hand one frame to the handler and its answer to its place; False when the turn ends here."""
        self._environment.metrics.frames += 1
        try:
            answer = self._environment.handler(frame, owner)
        except Exception as error:  # noqa: BLE001  (see `Connection.on_handler_failed`)
            owner.on_handler_failed(error)
            return False
        return owner.place_answer(answer, ready)

    def _start_frames(self, owner: InboxOwner, view: memoryview, end: int, ready: list[Part]) -> None:
        """Start the complete frames of view[:end], as many as a turn may have, and keep the rest."""
        position = 0
        frames_left = _FRAMES_PER_TURN_MAX
        handle = self._environment.handler
        metrics = self._environment.metrics
        waiting = owner.order.entries
        while end - position >= 4:
            size = _unpack_size(view, position)[0]
            if not 0 < size <= self.max_frame_bytes:
                self._refuse_size(owner, size)
                return
            body = position + 4
            next_position = body + size
            if next_position > end:
                if position:
                    self.unfinished.restart_clock()  # but not for one that goes on: its bytes may come one by one
                self._keep_frame_start(owner, view[position:end], size)
                return
            if not frames_left:
                self._keep_backlog(owner, view[position:end])
                return
            frames_left -= 1
            position = next_position
            metrics.frames += 1
            try:
                answer = handle(view[body:next_position], owner)
            except Exception as error:  # noqa: BLE001  (see `Connection.on_handler_failed`)
                owner.on_handler_failed(error)
                return
            if type(answer) is bytes and len(answer) < LARGE_ANSWER_BYTES and not waiting:
                ready.append(answer)  # nearly always
            elif not owner.place_answer(answer, ready):
                if position < end and not owner.is_closed and owner.closing_reason is None:
                    self._keep_backlog(owner, view[position:end])
                return
        if position < end:
            if position:
                self.unfinished.restart_clock()
            self._keep_carry(owner, view[position:end])

    def _keep_frame_start(self, owner: InboxOwner, start: memoryview, size: int) -> None:
        """A frame isn't complete: read on behind its start, or into a buffer of its own."""
        if size <= CARRY_FRAME_MAX_BYTES:
            self._keep_carry(owner, start)
        elif looks_foreign(size):
            self._refuse_size(owner, size)
        elif self.unfinished.begin_frame(self, size=size, start=start[4:]):
            owner.watch()
        else:
            self.pause |= NO_MEMORY
            self._keep_backlog(owner, start)

    def _keep_carry(self, owner: InboxOwner, rest: memoryview) -> None:
        self.unfinished.keep_carry(rest)
        owner.watch()

    def _keep_backlog(self, owner: InboxOwner, rest: memoryview) -> None:
        self.unfinished.keep_backlog(rest)
        owner.schedule()

    def _refuse_size(self, owner: InboxOwner, size: int) -> None:
        limits = self._environment.limits
        reason = describe_bad_size(
            size,
            max_bytes=self.max_frame_bytes,
            is_authenticated=self.max_frame_bytes == limits.socket_request_max_bytes,
        )
        self._environment.log.info("%s: %s; closing the connection", owner.address, reason)
        owner.closing_reason = "bad frame size"
