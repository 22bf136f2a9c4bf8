"""Fetch 4-16: file slices of partitions, at once or when `min_bytes` are there; full or in a session (KIP-227).

What followers fetch is the business of `follower_fetch.py`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.fetch_read import FetchRead, FetchResult
from ottla.broker.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    FetchSessions,
    SessionFault,
    TopicKey,
)
from ottla.broker.metadata_cache import MetadataCache
from ottla.core.clock import Clock
from ottla.core.exchange import Answer, Deferred, Peer
from ottla.protocol.fetch_codec import (
    TOPIC_IDS_SINCE,
    FetchArguments,
    FetchedPartition,
    FetchPartition,
    decode_fetch_request,
    encode_fetch_response,
)
from ottla.protocol.frames import RequestHeader, parse_request_header
from ottla.replication.delayed_fetch import DelayedFetch
from ottla.replication.replicas import Replicas

if TYPE_CHECKING:
    from ottla.broker.handlers.follower_fetch import FollowerFetchHandler


class FetchHandler:
    """Owns the fetch sessions of its broker."""

    def __init__(
        self,
        replicas: Replicas,
        cache: MetadataCache,
        sessions: FetchSessions,
        clock: Clock,
        *,
        max_bytes: int,
        on_answered: Callable[[FetchResult], None] | None = None,
    ) -> None:
        self._replicas = replicas
        self._cache = cache
        self._sessions = sessions
        self._clock = clock
        self._max_bytes = max_bytes
        self._on_answered = on_answered  # metrics
        self._followers: FollowerFetchHandler | None = None  # made with the first follower

    def handle_frame(self, frame: memoryview, version: int, correlation_id: int, peer: Peer) -> Answer | Deferred:
        header = parse_request_header(frame)
        request = decode_fetch_request(frame, header.body_position, version)
        if request.replica_id >= 0:
            return self._follower_handler().handle(request, version, correlation_id)
        session = self._enter_session(request, version)
        if isinstance(session, SessionFault):
            return encode_fetch_response(version, correlation_id, 0, session.error_code, NO_SESSION, [])
        wanted = _listed(request) if session is None else session.wanted()
        opens_session = request.session_epoch == INITIAL_EPOCH
        max_bytes = min(request.max_bytes, self._max_bytes)
        read = FetchRead(
            self._replicas,
            self._cache,
            wanted,
            version=version,
            min_bytes=min(request.min_bytes, max_bytes),
            max_bytes=max_bytes,
            isolation_level=request.isolation_level,
        )
        result = read()
        if result.is_enough or request.max_wait_ms <= 0:
            return self._answer(header, session, result, wanted if opens_session else None)
        deferred = Deferred(holds=True)

        def on_done(result: FetchResult) -> None:
            deferred.complete(self._answer(header, session, result, wanted if opens_session else None))

        operation = DelayedFetch(read, on_done)
        waiting = self._replicas.waiting
        waiting.watch(waiting.fetches, operation, read.keys(), request.max_wait_ms, is_tried=True)
        deferred.on_abandon = operation.abandon
        return deferred

    def _follower_handler(self) -> "FollowerFetchHandler":
        if self._followers is None:
            from ottla.broker.handlers.follower_fetch import FollowerFetchHandler

            self._followers = FollowerFetchHandler(
                self._replicas, max_bytes=self._max_bytes, new_session_id=self._sessions.new_id
            )
        return self._followers

    def _answer(
        self,
        header: RequestHeader,
        session: FetchSession | None,
        result: FetchResult,
        session_of: list[tuple[TopicKey, FetchPartition]] | None,
    ) -> Answer:
        """The answer, incremental in a session; `session_of` is what a full fetch wants a new session for."""
        if self._on_answered is not None:
            self._on_answered(result)
        is_incremental = session is not None
        if result.has_unknown:
            # What doesn't exist must cost nothing lasting, and a session that left it out would never fetch it once
            # it does exist. So there is no session until all of it is known: the client names everything each time.
            if session is not None:
                self._sessions.close(session.session_id)
        elif session_of is not None:
            uses_topic_ids = header.api_version >= TOPIC_IDS_SINCE
            session = self._sessions.create(session_of, uses_topic_ids=uses_topic_ids, now_ms=self._clock())
        return _encode(header, session, result, is_incremental=is_incremental)

    def _enter_session(self, request: FetchArguments, version: int) -> FetchSession | SessionFault | None:
        """The session that the request goes on with; None for a full fetch."""
        epoch = request.session_epoch
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if request.session_id != NO_SESSION:
                self._sessions.close(request.session_id)
            return None
        now_ms = self._clock()
        resumed = self._sessions.resume(
            request.session_id, epoch=epoch, uses_topic_ids=version >= TOPIC_IDS_SINCE, now_ms=now_ms
        )
        if isinstance(resumed, FetchSession):
            forgotten = [(topic, number) for topic, numbers in request.forgotten_topics for number in numbers]
            resumed.update(_listed(request), forgotten)
            self._sessions.on_updated(resumed, now_ms=now_ms)
        return resumed


def _listed(request: FetchArguments) -> list[tuple[TopicKey, FetchPartition]]:
    return [(topic, wanted) for topic, partitions in request.topics for wanted in partitions]


def _encode(
    header: RequestHeader, session: FetchSession | None, result: FetchResult, *, is_incremental: bool
) -> Answer:
    topics: dict[TopicKey, list[FetchedPartition]] = {}
    session_id = NO_SESSION
    if session is None:
        for topic, fetched, _ in result.partitions:
            topics.setdefault(topic, []).append(fetched)
    else:
        session_id = session.session_id
        for topic, fetched, size_bytes in result.partitions:
            if not is_incremental or session.has_news(topic, fetched, records_bytes=size_bytes):
                topics.setdefault(topic, []).append(fetched)
            session.remember(topic, fetched, records_bytes=size_bytes)
    return encode_fetch_response(header.api_version, header.correlation_id, 0, 0, session_id, list(topics.items()))
