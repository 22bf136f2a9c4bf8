"""Fetch sessions (KIP-227): the broker remembers what a client fetches, so that each request names only changes.

Owned by the fetch handler; event loop only. The number of sessions is bounded; a client that gets none (id 0) simply
goes on with full fetches.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ottla.core.errors import ErrorCode
from ottla.protocol.fetch_codec import FetchedPartition, FetchPartition

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
NO_SESSION = 0
_EPOCH_MAX = 2**31 - 1
_EVICTABLE_AFTER_MS = 120_000

TopicKey = str | bytes  # the topic's name, from Fetch 13 on its id
SessionKey = tuple[TopicKey, int]


class SessionFault(NamedTuple):
    """The request can't be served in its session; the client starts a new one."""

    error_code: ErrorCode


class _Remembered:
    """One partition of a session: what the client asked for and what it was last told."""

    __slots__ = ("high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: FetchPartition) -> None:
        self.wanted = wanted
        self.high_watermark = -1
        self.log_start_offset = -1


class FetchSession:
    """What one client fetches. Partitions are kept in the order in which they are served next."""

    __slots__ = ("epoch", "last_used_ms", "partitions", "session_id", "uses_topic_ids")

    def __init__(self, session_id: int, *, uses_topic_ids: bool) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.last_used_ms = 0
        self.partitions: OrderedDict[SessionKey, _Remembered] = OrderedDict()

    def update(self, wanted: Iterable[tuple[TopicKey, FetchPartition]], forgotten: Iterable[SessionKey]) -> None:
        """Take in the changes that a request names."""
        partitions = self.partitions
        for topic, partition in wanted:
            key = (topic, partition.partition)
            remembered = partitions.get(key)
            if remembered is None:
                partitions[key] = _Remembered(partition)
            else:
                remembered.wanted = partition
        for key in forgotten:
            partitions.pop(key, None)

    def wanted(self) -> list[tuple[TopicKey, FetchPartition]]:
        return [(topic, remembered.wanted) for (topic, _), remembered in self.partitions.items()]

    def has_news(self, topic: TopicKey, fetched: FetchedPartition, *, records_bytes: int) -> bool:
        """Whether a partition must be in an incremental answer."""
        remembered = self.partitions.get((topic, fetched.partition))
        if remembered is None or records_bytes > 0 or fetched.error_code != 0:
            return True
        return (
            fetched.high_watermark != remembered.high_watermark
            or fetched.log_start_offset != remembered.log_start_offset
        )

    def remember(self, topic: TopicKey, fetched: FetchedPartition, *, records_bytes: int) -> None:
        """Note what the client was told; a partition that gave records goes behind the others, so all get a turn."""
        key = (topic, fetched.partition)
        remembered = self.partitions.get(key)
        if remembered is None:
            return
        if fetched.error_code != 0:
            # Told again until it is gone: forget what the client knew.
            remembered.high_watermark = remembered.log_start_offset = -1
        else:
            remembered.high_watermark = fetched.high_watermark
            remembered.log_start_offset = fetched.log_start_offset
        if records_bytes > 0:
            self.partitions.move_to_end(key)


class FetchSessions:
    """All sessions of a broker, the least recently used first."""

    def __init__(self, *, slots: int, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._new_id = new_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def close(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def create(self, *, uses_topic_ids: bool, now_ms: int) -> FetchSession | None:
        """A new session, or None when all slots are taken by sessions that are in use."""
        sessions = self._sessions
        if len(sessions) >= self._slots:
            oldest = next(iter(sessions.values()), None)
            if oldest is None or now_ms - oldest.last_used_ms < _EVICTABLE_AFTER_MS:
                return None
            del sessions[oldest.session_id]
        session_id = self._new_id()
        while session_id in sessions or session_id == NO_SESSION:
            session_id = self._new_id()
        session = FetchSession(session_id, uses_topic_ids=uses_topic_ids)
        session.last_used_ms = now_ms
        sessions[session_id] = session
        return session

    def resume(self, session_id: int, *, epoch: int, uses_topic_ids: bool, now_ms: int) -> FetchSession | SessionFault:
        """The session of an incremental fetch, its epoch moved on."""
        session = self._sessions.get(session_id)
        if session is None:
            return SessionFault(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return SessionFault(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return SessionFault(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return session
