"""Relays the requests and responses of one client's connection through the proxy, and applies faults to them.

No sockets here: bytes come in, and go out through `RelayEnds`. Requests and responses keep their order.
"""

from collections import deque
from typing import Final, Protocol

from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.protocol.apis import ApiKey
from ottla.protocol.frames import RequestHeader, parse_request_header
from ottla.protocol.primitives import Reader
from ottla.testing.error_answers import BrokerIdentity, continues_fetch_session, error_answer, read_request
from ottla.testing.faults import CutNext, FailNext, FaultBoard, Hold, SeenRequest
from ottla.testing.frame_stream import FrameStream, NotFrames

_FIRST_FLEXIBLE_PRODUCE: Final = 9
# With more than this waiting here, reading from the client pauses.
QUEUED_BYTES_MAX: Final = 16 * 1024 * 1024


class RelayEnds(Protocol):
    """The two sockets, and a clock."""

    identity: BrokerIdentity

    def send_to_broker(self, data: bytes) -> None: ...

    def send_to_client(self, data: bytes) -> None: ...

    def cut(self) -> None: ...

    def now(self) -> float: ...

    def call_at(self, when: float) -> None:
        """`Relay.pump` at that time."""


class _Request:
    """On its way to the broker."""

    __slots__ = ("due", "frame", "header", "held_by")

    def __init__(self, frame: bytes, header: RequestHeader | None, due: float) -> None:
        self.frame = frame
        self.header = header
        self.due = due
        self.held_by: Hold | None = None


class _Answer:
    """A response on its way to the client, or not yet here; `made` replaces it."""

    __slots__ = ("cuts", "frame", "hold", "made")

    def __init__(self, *, made: bytes | None = None, cuts: bool = False, hold: Hold | None = None) -> None:
        self.frame: bytes | None = None
        self.made = made
        self.cuts = cuts
        self.hold = hold


class Relay:
    """Lives as long as the connection; `pump` must be called whenever a fault is removed or a delay is over."""

    def __init__(self, board: FaultBoard, ends: RelayEnds) -> None:
        self.queued_bytes = 0
        self.client_id: str | None = None  # as its last request says
        self._board = board
        self._ends = ends
        self._from_client = FrameStream()
        self._from_broker = FrameStream()
        self._requests: deque[_Request] = deque()
        self._answers: deque[_Answer] = deque()  # in the order in which the client gets them
        self._awaited: deque[_Answer] = deque()  # those that the broker has yet to give
        self._is_opaque = False
        self._is_cut = False

    def take_from_client(self, data: bytes) -> None:
        if self._is_opaque:
            self._ends.send_to_broker(data)
            return
        rest = None
        try:
            frames = self._from_client.feed(data)
        except NotFrames as stranger:
            frames, rest = stranger.frames, stranger.rest
        now = self._ends.now()
        for frame in frames:
            header = _header_of(frame)
            due = 0.0
            if header is not None:
                self.client_id = header.client_id
                self._board.seen.append(SeenRequest(ApiKey(header.api_key), header.api_version, header.client_id))
                delay_ms = self._board.delay_ms(header)
                due = now + delay_ms / 1000 if delay_ms else 0.0
            self._requests.append(_Request(frame, header, due))
            self.queued_bytes += len(frame)
        self.pump()
        if rest is not None:
            # What we can't read is the broker's to judge; no fault applies to it.
            self._is_opaque = True
            self._ends.send_to_broker(rest)

    def take_from_broker(self, data: bytes) -> None:
        if self._is_opaque:
            self._ends.send_to_client(data)
            return
        rest = b""
        try:
            frames = self._from_broker.feed(data)
        except NotFrames as stranger:
            frames, rest = stranger.frames, stranger.rest
        for frame in frames:
            answer = self._awaited.popleft() if self._awaited else None
            if answer is None:  # to a request that we could not read
                answer = _Answer()
                self._answers.append(answer)
            answer.frame = frame if answer.made is None else answer.made
        self._send_answers()
        if rest:
            self._is_opaque = True
            self._ends.send_to_client(rest)

    def pump(self) -> None:
        """Forward everything that no fault holds any more."""
        self._send_requests()
        self._send_answers()

    def _send_requests(self) -> None:
        requests = self._requests
        board = self._board
        out: list[bytes] = []
        while requests and not self._is_cut:
            request = requests[0]
            header = request.header
            if request.due:
                if request.due > self._ends.now():
                    self._ends.call_at(request.due)
                    break
                request.due = 0.0
            if header is not None and board.faults:
                hold = board.hold_on(header, answers=False)
                if hold is not None:
                    if request.held_by is not hold:
                        request.held_by = hold
                        hold.used += 1
                    break
            requests.popleft()
            self.queued_bytes -= len(request.frame)
            if header is None or not board.faults:
                self._forward(request, out, None)
            else:
                self._meet_faults(request, header, out)
        if out:
            self._ends.send_to_broker(b"".join(out))
        if self._is_cut:
            self._ends.cut()

    def _meet_faults(self, request: _Request, header: RequestHeader, out: list[bytes]) -> None:
        hold = self._board.hold_on(header, answers=True)
        if hold is not None:
            hold.used += 1
        fault = self._board.next_failure(header)
        if isinstance(fault, FailNext):
            self._fail(request, header, fault, out, hold)
        elif isinstance(fault, CutNext):
            self._board.use(fault)
            if fault.when == "before":
                self._is_cut = True
            else:
                self._forward(request, out, _Answer(cuts=True, hold=hold))
                self._is_cut = _wants_no_answer(request.frame, header)
        else:
            self._forward(request, out, _Answer(hold=hold))

    def _fail(
        self, request: _Request, header: RequestHeader, fault: FailNext, out: list[bytes], hold: Hold | None
    ) -> None:
        frame = memoryview(request.frame)[4:]
        try:
            asked = read_request(header, frame)
        except (ProtocolViolation, ValueError, ModuleNotFoundError):
            self._forward(request, out, None)  # the broker refuses it in its own way
            return
        if continues_fetch_session(asked, header.api_version):
            # The client opens a new session, in which it names all its partitions: that request is the one to fail.
            made = error_answer(asked, header, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, self._ends.identity)
            self._answers.append(_ready(made))
            return
        made = error_answer(asked, header, fault.error, self._ends.identity)
        if made is None:
            self._forward(request, out, None)
            return
        self._board.use(fault)
        is_unanswered = _wants_no_answer(request.frame, header)
        if fault.applied:
            self._forward(request, out, _Answer(made=made, hold=hold))
        elif not is_unanswered:
            self._answers.append(_ready(made))
        if is_unanswered:
            self._is_cut = True  # who asked for no answer learns of a failure by losing its connection

    def _forward(self, request: _Request, out: list[bytes], answer: _Answer | None) -> None:
        out.append(request.frame)
        header = request.header
        if header is None or _wants_no_answer(request.frame, header):
            return
        answer = answer or _Answer()
        self._answers.append(answer)
        self._awaited.append(answer)

    def _send_answers(self) -> None:
        answers = self._answers
        out: list[bytes] = []
        while answers and not self._is_cut:
            answer = answers[0]
            if answer.frame is None or (answer.hold is not None and answer.hold in self._board.faults):
                break
            answers.popleft()
            if answer.cuts:
                self._is_cut = True
            else:
                out.append(answer.frame)
        if out:
            self._ends.send_to_client(out[0] if len(out) == 1 else b"".join(out))
        if self._is_cut:
            self._ends.cut()


def _ready(made: bytes | None) -> _Answer:
    answer = _Answer()
    answer.frame = made
    return answer


def _header_of(frame: bytes) -> RequestHeader | None:
    """None for a request that the broker will refuse."""
    try:
        return parse_request_header(memoryview(frame)[4:])
    except ProtocolViolation:
        return None


def _wants_no_answer(frame: bytes, header: RequestHeader) -> bool:
    """A Produce with acks=0; its acks come right after the transactional id."""
    if header.api_key != ApiKey.PRODUCE:
        return False
    reader = Reader(memoryview(frame)[4:], header.body_position)
    try:
        if header.api_version >= _FIRST_FLEXIBLE_PRODUCE:
            reader.compact_nullable_string()
        else:
            reader.nullable_string()
        return reader.int16() == 0
    except ProtocolViolation:
        return False
