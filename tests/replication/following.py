"""Followers by hand: a loop that the test moves, and a stand-in for a leader behind the real codecs of Fetch."""

from collections.abc import Callable
from functools import partial
from random import Random

from ottla.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, FetchSession, FetchSessions, SessionFault
from ottla.core.cluster import PartitionState
from ottla.core.disk import FileSlice
from ottla.core.errors import ErrorCode
from ottla.links.errors import ClientError, ConnectionFailed
from ottla.protocol.fetch_client_codec import FetchAnswer, decode_fetch_response, encode_fetch_request
from ottla.protocol.fetch_codec import (
    EpochEndOffset,
    FetchArguments,
    FetchedPartition,
    FetchPartition,
    decode_fetch_request,
    encode_fetch_response,
)
from ottla.protocol.frames import parse_request_header
from ottla.replication.fetcher import FetcherPorts
from ottla.storage.log import Log
from tests.storage.log_making import NOW_MS

VERSION = 16
LEADER_ID = 2
FOLLOWER_ID = 1
BROKER_EPOCH = 77
TOPIC_ID = bytes(range(16))


def following(leader_epoch: int, leader: int = LEADER_ID) -> PartitionState:
    return PartitionState(leader, leader_epoch, isr=(leader,), replicas=(FOLLOWER_ID, LEADER_ID))


class _Timer:
    def __init__(self, at_ms: int, callback: Callable[[], None]) -> None:
        self.at_ms = at_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class HandLoop:
    """Time moves only by `advance`."""

    def __init__(self) -> None:
        self.time_ms = 0
        self.soon: list[Callable[[], None]] = []
        self.timers: list[_Timer] = []

    def now_ms(self) -> int:
        return self.time_ms

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> _Timer:
        timer = _Timer(self.time_ms + delay_ms, callback)
        self.timers.append(timer)
        return timer

    def run(self, turns: int = 10_000) -> None:
        """Turns until nothing is left to do now."""
        for _ in range(turns):
            if not self.soon:
                return
            due, self.soon = self.soon, []
            for callback in due:
                callback()
        raise AssertionError("the loop never rests")

    def advance(self, delay_ms: int) -> None:
        end_ms = self.time_ms + delay_ms
        self.run()
        while True:
            self.timers = [timer for timer in self.timers if timer.callback is not None]
            due = min(
                (timer for timer in self.timers if timer.at_ms <= end_ms), key=lambda one: one.at_ms, default=None
            )
            if due is None or due.callback is None:
                break
            self.time_ms = max(self.time_ms, due.at_ms)
            callback, due.callback = due.callback, None
            callback()
            self.run()
        self.time_ms = end_ms


def fetcher_ports(loop: HandLoop, *, await_truncation: Callable[[Log, int, Callable[[], None]], None] | None = None):
    return FetcherPorts(
        broker_id=FOLLOWER_ID,
        broker_epoch=lambda: BROKER_EPOCH,
        clock=lambda: NOW_MS,
        loop=loop,
        random=Random(1),
        await_truncation=await_truncation or partial(_truncate_soon, loop),
    )


def _truncate_soon(loop: HandLoop, log: Log, offset: int, on_done: Callable[[], None]) -> None:
    log.lower_recovery_point(offset)
    loop.call_soon(on_done)


class LeaderLog:
    """One partition that the stand-in leads."""

    def __init__(self, log: Log, *, leader_epoch: int) -> None:
        self.log = log
        self.leader_epoch = leader_epoch
        self.high_watermark = log.log_start_offset
        self.error_code = ErrorCode.NONE
        self.spoil: Callable[[bytes], bytes] | None = None  # what becomes of records on their way

    def read(self, wanted: FetchPartition, max_bytes: int) -> FetchedPartition:
        log = self.log
        number = wanted.partition
        error_code = self.error_code
        if not error_code and wanted.current_leader_epoch != self.leader_epoch:
            is_old = wanted.current_leader_epoch < self.leader_epoch
            error_code = ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
        if error_code:
            return FetchedPartition(number, error_code, -1, records=b"")
        if wanted.last_fetched_epoch >= 0:
            end = log.leader_epochs.end_offset_of(wanted.last_fetched_epoch, log_end_offset=log.log_end_offset)
            if end.end_offset < 0:
                return self._fetched(number, ErrorCode.OFFSET_OUT_OF_RANGE)
            if end.leader_epoch < wanted.last_fetched_epoch or end.end_offset < wanted.fetch_offset:
                return self._fetched(number, diverging_epoch=EpochEndOffset(end.leader_epoch, end.end_offset))
        read = log.read(wanted.fetch_offset, max_bytes=min(max_bytes, wanted.partition_max_bytes))
        if read.error_code:
            return self._fetched(number, read.error_code)
        records = b""
        if read.slice is not None:
            records = read.slice.file.pread(read.slice.length, read.slice.position)
            if self.spoil is not None:
                records = self.spoil(records)
        return self._fetched(number, records=records)

    def _fetched(self, number: int, error_code: int = 0, *, records: bytes = b"", diverging_epoch=None):
        return FetchedPartition(
            number,
            error_code,
            self.high_watermark,
            self.high_watermark,
            self.log.log_start_offset,
            records=records,
            diverging_epoch=diverging_epoch,
        )


class StandInLeader:
    """A `FetchChannel` whose other end is in the same process: all goes through the codecs and through real sessions.

    A fetch that finds nothing waits until the test calls `wake`, or the follower sends another one.
    """

    def __init__(self, loop: HandLoop) -> None:
        self.loop = loop
        self.logs: dict[tuple[bytes, int], LeaderLog] = {}
        ids = Random(3)
        self.sessions = FetchSessions(slots=10, partitions_max=10_000, new_id=lambda: ids.getrandbits(30))
        self.requests: list[FetchArguments] = []
        self.is_reachable = True
        self.is_closed = False
        self.error_code = ErrorCode.NONE
        self._waiting: list[
            tuple[FetchArguments, FetchSession | None, Callable[[FetchAnswer | ClientError], None]]
        ] = []

    @property
    def is_waited_for(self) -> int:
        return len(self._waiting)

    def send(self, arguments: FetchArguments, on_answer: Callable[[FetchAnswer | ClientError], None]) -> None:
        frame = memoryview(encode_fetch_request(VERSION, 1, "follower", arguments))[4:]
        read = decode_fetch_request(frame, parse_request_header(frame).body_position, VERSION)
        assert read == arguments
        self.requests.append(read)
        self.loop.call_soon(lambda: self._receive(read, on_answer))

    def close(self) -> None:
        self.is_closed = True

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for request, session, on_answer in waiting:
            self._answer(request, session, on_answer, may_wait=True)

    def disconnect(self) -> None:
        """Whoever waits hears that the connection is lost."""
        waiting, self._waiting = self._waiting, []
        for _, _, on_answer in waiting:
            on_answer(ConnectionFailed("connection lost"))

    def _receive(self, request: FetchArguments, on_answer: Callable[[FetchAnswer | ClientError], None]) -> None:
        if self.is_closed:
            return
        if not self.is_reachable:
            on_answer(ConnectionFailed("not reached"))
            return
        waiting, self._waiting = self._waiting, []
        for before in waiting:
            self._answer(*before, may_wait=False)
        session: FetchSession | None = None
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self.sessions.close(request.session_id)
        else:
            resumed = self.sessions.resume(
                request.session_id, epoch=request.session_epoch, uses_topic_ids=True, now_ms=0
            )
            if isinstance(resumed, SessionFault):
                self._reply(on_answer, resumed.error_code, 0, [])
                return
            session = resumed
            session.update(
                [(topic, wanted) for topic, partitions in request.topics for wanted in partitions],
                [(topic, number) for topic, numbers in request.forgotten_topics for number in numbers],
            )
        self._answer(request, session, on_answer, may_wait=request.max_wait_ms > 0)

    def _answer(
        self,
        request: FetchArguments,
        session: FetchSession | None,
        on_answer: Callable[[FetchAnswer | ClientError], None],
        *,
        may_wait: bool,
    ) -> None:
        if self.is_closed:
            return
        if self.error_code:
            self._reply(on_answer, self.error_code, 0, [])
            return
        is_incremental = session is not None
        listed = [(topic, wanted) for topic, partitions in request.topics for wanted in partitions]
        wanted_here = listed if session is None else session.wanted()
        answers: list[tuple[bytes, list[FetchedPartition]]] = []
        results = []
        bytes_left = request.max_bytes
        for topic, wanted in wanted_here:
            assert isinstance(topic, bytes)
            leader = self.logs.get((topic, wanted.partition))
            if leader is None:
                fetched = FetchedPartition(wanted.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, records=b"")
            else:
                fetched = leader.read(wanted, bytes_left)
            size_bytes = len(fetched.records or b"")
            bytes_left = max(bytes_left - size_bytes, 0)
            results.append((topic, fetched, size_bytes))
        has_news = any(
            session is None
            or session.has_news(topic, fetched, records_bytes=size)
            or fetched.diverging_epoch is not None
            for topic, fetched, size in results
        )
        if may_wait and not has_news:
            self._waiting.append((request, session, on_answer))
            self.loop.call_later(request.max_wait_ms, lambda: self._time_out(request))
            return
        if session is None and request.session_epoch == INITIAL_EPOCH:
            session = self.sessions.create(listed, uses_topic_ids=True, now_ms=0)
        for topic, fetched, size in results:
            if (
                session is None
                or not is_incremental
                or (session.has_news(topic, fetched, records_bytes=size) or fetched.diverging_epoch is not None)
            ):
                answers.append((topic, [fetched]))
            if session is not None:
                session.remember(topic, fetched, records_bytes=size)
        self._reply(on_answer, 0, 0 if session is None else session.session_id, answers)

    def _time_out(self, request: FetchArguments) -> None:
        for waiting in [one for one in self._waiting if one[0] is request]:
            self._waiting.remove(waiting)
            self._answer(*waiting, may_wait=False)

    def _reply(self, on_answer, error_code: int, session_id: int, topics) -> None:
        parts = encode_fetch_response(VERSION, 1, 0, error_code, session_id, topics)
        assert not any(isinstance(part, FileSlice) for part in parts)
        frame = memoryview(b"".join(parts))[4:]
        self.loop.call_soon(lambda: None if self.is_closed else on_answer(decode_fetch_response(VERSION, frame)))
