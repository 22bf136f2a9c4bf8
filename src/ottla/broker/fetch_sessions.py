"""Fetch sessions (KIP-227): the broker remembers what a client fetches, so that each request names only changes.

Owned by the fetch handler; event loop only. A session outlives its connection, as in Kafka: clients come back. So both
the sessions and the partitions in all of them are bounded; a client that gets none (id 0) goes on with full fetches.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
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
    """One partition of a session: what the client wants of it and what the last answer said."""

    __slots__ = ("high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: FetchPartition) -> None:
        self.wanted = wanted
        self.high_watermark = -1
        self.log_start_offset = -1


class FetchSession:
    """What one client fetches. Partitions are kept in the order in which they are served next.

    The id of a session that is closed is 0, which is also how a client learns of it.
    """

    __slots__ = (
        "cached_partitions",
        "created_ms",
        "epoch",
        "last_used_ms",
        "partitions",
        "session_id",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, *, uses_topic_ids: bool, now_ms: int = 0) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.created_ms = self.last_used_ms = now_ms
        self.cached_partitions = 0  # as counted by `FetchSessions`
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
        """Note what the client is sent; a partition that gave records goes behind the others, so all get a turn."""
        key = (topic, fetched.partition)
        remembered = self.partitions.get(key)
        if remembered is None:
            return
        if fetched.error_code != 0:
            # Sent again until it is gone: forget what the client knew.
            remembered.high_watermark = remembered.log_start_offset = -1
        else:
            remembered.high_watermark = fetched.high_watermark
            remembered.log_start_offset = fetched.log_start_offset
        if records_bytes > 0:
            self.partitions.move_to_end(key)


class FetchSessions:
    """All sessions of a broker, the least recently used first."""

    def __init__(self, *, slots: int, partitions_max: int, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._partitions_max = partitions_max
        self.new_id = new_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self.cached_partitions = 0  # over all sessions
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.session_id = NO_SESSION
            self.cached_partitions -= session.cached_partitions

    def create(
        self, wanted: Collection[tuple[TopicKey, FetchPartition]], *, uses_topic_ids: bool, now_ms: int
    ) -> FetchSession | None:
        """A new session, or None when there is no room for it beside those that are in use."""
        if not self._make_room(len(wanted), now_ms):
            return None
        sessions = self._sessions
        session_id = self.new_id()
        while session_id in sessions or session_id == NO_SESSION:
            session_id = self.new_id()
        session = FetchSession(session_id, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
        session.update(wanted, ())
        sessions[session_id] = session
        self._count(session)
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

    def on_updated(self, session: FetchSession, *, now_ms: int) -> None:
        """A session has other partitions than before; without room for them it is closed."""
        self._count(session)
        if self.cached_partitions > self._partitions_max:
            self._evict_unused(partitions=0, sessions=0, now_ms=now_ms)
            if self.cached_partitions > self._partitions_max:
                self._evict(session)

    def _count(self, session: FetchSession) -> None:
        self.cached_partitions += len(session.partitions) - session.cached_partitions
        session.cached_partitions = len(session.partitions)

    def _make_room(self, partitions: int, now_ms: int) -> bool:
        if partitions > self._partitions_max or not self._slots:
            return False
        self._evict_unused(partitions=partitions, sessions=1, now_ms=now_ms)
        if self.cached_partitions + partitions > self._partitions_max:
            return False
        if len(self._sessions) < self._slots:
            return True
        # As Kafka does: after some time a session has to give its slot to one that saves more.
        settled = [one for one in self._sessions.values() if now_ms - one.created_ms >= _EVICTABLE_AFTER_MS]
        smallest = min(settled, key=lambda one: one.cached_partitions, default=None)
        if smallest is None or smallest.cached_partitions >= partitions:
            return False
        self._evict(smallest)
        return True

    def _evict_unused(self, *, partitions: int, sessions: int, now_ms: int) -> None:
        """Close sessions that nobody has used for long, until there is room for this many more."""
        while (
            len(self._sessions) + sessions > self._slots or self.cached_partitions + partitions > self._partitions_max
        ):
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.last_used_ms < _EVICTABLE_AFTER_MS:
                return
            self._evict(oldest)

    def _evict(self, session: FetchSession) -> None:
        self.evictions += 1
        self.close(session.session_id)
