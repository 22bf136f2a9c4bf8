"""Fetch 15-16 from a follower: its progress is noted, and it gets what is new, up to the end of each log.

A fetch that waits does not hold its connection: a further one, by which a follower says that more of it is durable, is
served at once, and the one that waited is answered before it. Imported with the first follower.
"""

from collections.abc import Callable

from ottla.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION
from ottla.broker.follower_read import FollowerRead, FollowerResult, find_for_follower, note_progress, partition_of
from ottla.broker.follower_session import FollowerSession
from ottla.core.errors import ErrorCode
from ottla.core.exchange import Answer, Deferred
from ottla.core.types import NO_BROKER_EPOCH, BrokerId
from ottla.protocol.fetch_codec import (
    FetchArguments,
    FetchedPartition,
    FetchPartition,
    TopicKey,
    encode_fetch_response,
)
from ottla.replication.delayed_fetch import DelayedFetch
from ottla.replication.follower_fetches import FollowerFetches, SessionKey
from ottla.replication.replicas import Replicas

# The first with the epoch of the follower's broker, without which nothing that it says can be relied on (KIP-903).
_EPOCHS_SINCE = 15


class FollowerFetchHandler:
    """Owns the sessions of all followers, one for each."""

    def __init__(self, replicas: Replicas, *, max_bytes: int, new_session_id: Callable[[], int]) -> None:
        self._replicas = replicas
        self._max_bytes = max_bytes
        self._new_session_id = new_session_id
        self._sessions: dict[BrokerId, FollowerSession] = {}

    def handle(self, request: FetchArguments, version: int, correlation_id: int) -> Answer | Deferred:
        fetches = self._replicas.followers.get(request.replica_id)
        if fetches is None or version < _EPOCHS_SINCE:
            return self._refuse_each(request, version, correlation_id)
        if self._is_stale(request, fetches):
            return _failed(version, correlation_id, ErrorCode.STALE_BROKER_EPOCH)
        is_full = request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH)
        session = self._begin_session(request, fetches) if is_full else self._resume(request)
        if isinstance(session, ErrorCode):
            return _failed(version, correlation_id, session)
        fetches.end_wait()
        fetches.broker_epoch = request.replica_epoch
        fetches.last_fetch_ms = now_ms = self._replicas.waiting.now_ms()
        named = [(_key(topic, wanted.partition), wanted) for topic, some in request.topics for wanted in some]
        session.update(named)
        for topic, numbers in request.forgotten_topics:
            for number in numbers:
                self._leave(fetches, _key(topic, number))
                session.forget(_key(topic, number))
        # Those with an error are asked for again by each fetch, until they are served or forgotten.
        again = [key for key in session.news if (one := session.partitions.get(key)) and not one.is_served]
        for key in dict.fromkeys([key for key, _ in named] + again):
            note_progress(self._replicas, session, key, broker_epoch=request.replica_epoch, now_ms=now_ms)
        max_bytes = min(request.max_bytes, self._max_bytes)
        read = FollowerRead(
            self._replicas,
            session,
            min_bytes=min(request.min_bytes, max_bytes),
            max_bytes=max_bytes,
            is_full=is_full,
        )
        result = read()
        if result.is_enough or request.max_wait_ms <= 0:
            return _answer(version, correlation_id, session, read, result)
        deferred = Deferred(holds=False)

        def on_done(result: FollowerResult) -> None:
            deferred.complete(_answer(version, correlation_id, session, read, result))

        operation = DelayedFetch(read, on_done)
        fetches.waiting = operation
        waiting = self._replicas.waiting
        waiting.watch(waiting.fetches, operation, [fetches], request.max_wait_ms, is_tried=True)
        deferred.on_abandon = operation.abandon
        return deferred

    def _is_stale(self, request: FetchArguments, fetches: FollowerFetches) -> bool:
        """Whether the follower's broker has registered anew since it sent this."""
        live_epoch = self._replicas.cluster.live_epoch(request.replica_id)
        newest = fetches.broker_epoch if live_epoch is None else max(live_epoch, fetches.broker_epoch)
        return request.replica_epoch == NO_BROKER_EPOCH or request.replica_epoch < newest

    def _begin_session(self, request: FetchArguments, fetches: FollowerFetches) -> FollowerSession:
        fetches.end_wait()
        old = self._sessions.get(fetches.broker_id)
        if old is not None:
            for key in old.partitions:
                self._leave(fetches, key)
        session_id = NO_SESSION if request.session_epoch == FINAL_EPOCH else self._new_session_id()
        session = FollowerSession(session_id, fetches)
        self._sessions[fetches.broker_id] = session
        return session

    def _resume(self, request: FetchArguments) -> FollowerSession | ErrorCode:
        session = self._sessions.get(request.replica_id)
        if session is None or request.session_id == NO_SESSION:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if request.replica_epoch != session.fetches.broker_epoch:
            # What was noted of its partitions was said before it registered anew: it has to name all of them again.
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return session.resume(request.session_id, epoch=request.session_epoch) or session

    def _leave(self, fetches: FollowerFetches, key: SessionKey) -> None:
        partition = partition_of(self._replicas, key)
        if partition is not None:
            progress = partition.followers.get(fetches.broker_id)
            if progress is not None:
                progress.leave_session(partition.log.log_end_offset)

    def _refuse_each(self, request: FetchArguments, version: int, correlation_id: int) -> Answer:
        """Of a broker that follows nothing here; or of a version that does not say which start of it this is."""

        def refused(topic: TopicKey, wanted: FetchPartition) -> FetchedPartition:
            error_code = ErrorCode.REPLICA_NOT_AVAILABLE
            if version >= _EPOCHS_SINCE and isinstance(topic, bytes):
                found = find_for_follower(self._replicas, (topic, wanted.partition), wanted, request.replica_id)
                error_code = found if isinstance(found, ErrorCode) else error_code
            return FetchedPartition(wanted.partition, error_code, -1, records=b"")

        topics = [(topic, [refused(topic, wanted) for wanted in some]) for topic, some in request.topics]
        return encode_fetch_response(version, correlation_id, 0, 0, NO_SESSION, topics)


def _key(topic: TopicKey, number: int) -> SessionKey:
    assert isinstance(topic, bytes), "ids since version 13"
    return topic, number


def _answer(
    version: int, correlation_id: int, session: FollowerSession, read: FollowerRead, result: FollowerResult
) -> Answer:
    read.remember(result)
    topics: dict[TopicKey, list[FetchedPartition]] = {}
    for (topic, _), fetched, _ in result.partitions:
        topics.setdefault(topic, []).append(fetched)
    return encode_fetch_response(version, correlation_id, 0, 0, session.session_id, list(topics.items()))


def _failed(version: int, correlation_id: int, error_code: ErrorCode) -> Answer:
    return encode_fetch_response(version, correlation_id, 0, error_code, NO_SESSION, [])
