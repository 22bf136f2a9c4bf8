"""The follower's side of a fetch session (KIP-227), made for many idle partitions: a request names what changed.

Owned by one fetcher. Unlike a consumer's session it never compares all partitions: whoever changes one says so.
"""

from typing import Final, NamedTuple

from ottla.protocol.fetch_codec import FetchPartition, TopicKey
from ottla.replication.followed_partition import FollowedPartition, PartitionKey

_NO_SESSION: Final = 0
FULL_FETCH_EPOCH: Final = 0
_FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1


class SessionRequest(NamedTuple):
    """The session's part of a fetch."""

    session_id: int
    epoch: int
    topics: list[tuple[TopicKey, list[FetchPartition]]]
    forgotten_topics: list[tuple[TopicKey, list[int]]]


class FetcherSession:
    """`build`, send, `on_answer`, in this order; after a failure `restart`. Incremental requests may overlap."""

    __slots__ = ("_changed", "_epoch", "_forgotten", "_is_restarted", "_session_id", "partitions")

    def __init__(self) -> None:
        self.partitions: dict[PartitionKey, FollowedPartition] = {}  # all that are to be fetched
        self._changed: dict[PartitionKey, FollowedPartition] = {}
        self._forgotten: dict[PartitionKey, None] = {}
        self._session_id = _NO_SESSION
        self._epoch = FULL_FETCH_EPOCH  # of the next request
        self._is_restarted = False  # since the last request

    @property
    def is_open(self) -> bool:
        """Whether the leader has a session that it would have to keep for us."""
        return self._session_id != _NO_SESSION

    @property
    def has_changes(self) -> bool:
        return bool(self._changed or self._forgotten) or self._epoch == FULL_FETCH_EPOCH

    def add(self, followed: FollowedPartition) -> None:
        """Fetch it from the next request on."""
        key = followed.key
        if key in self._forgotten:
            # The leader does not know yet, and would not repeat what it said in an answer that was not taken.
            self.restart()
        self.partitions[key] = followed
        self._changed[key] = followed

    def change(self, followed: FollowedPartition) -> None:
        """Something else is wanted of it than the leader knows."""
        self._changed[followed.key] = followed

    def remove(self, followed: FollowedPartition) -> None:
        """Fetch it no more."""
        key = followed.key
        if self.partitions.get(key) is not followed:
            return
        del self.partitions[key]
        self._changed.pop(key, None)
        if followed.sent is not None:
            followed.sent = None
            self._forgotten[key] = None

    def build(self, number: int) -> SessionRequest:
        """What to send as request `number`, so that the leader knows what is wanted of every partition."""
        self._is_restarted = False
        epoch = self._epoch
        is_full = epoch == FULL_FETCH_EPOCH
        named = self.partitions if is_full else self._changed
        topics: dict[TopicKey, list[FetchPartition]] = {}
        for (topic_id, _), followed in named.items():
            wanted = followed.name_in(number)
            of_topic = topics.get(topic_id)
            if of_topic is None:
                topics[topic_id] = [wanted]
            else:
                of_topic.append(wanted)
        forgotten: dict[TopicKey, list[int]] = {}
        if not is_full:
            for topic_id, number in self._forgotten:
                forgotten.setdefault(topic_id, []).append(number)
        self._changed.clear()
        self._forgotten.clear()
        if not is_full:
            self._epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        return SessionRequest(self._session_id, epoch, list(topics.items()), list(forgotten.items()))

    def on_answer(self, session_id: int) -> None:
        """The leader took the request; without a session id it has no room, and the next request is full again."""
        if session_id == _NO_SESSION:
            self.restart()
        elif self._epoch == FULL_FETCH_EPOCH and not self._is_restarted:
            self._epoch = 1
        self._session_id = session_id

    def restart(self) -> None:
        """The leader may know anything: the next request is full, and closes the old session if it is still there."""
        self._is_restarted = True
        self._epoch = FULL_FETCH_EPOCH
        self._forgotten.clear()

    def close(self) -> SessionRequest:
        """The request that ends the session on the leader, for when there is nothing to fetch."""
        request = SessionRequest(self._session_id, _FINAL_EPOCH, [], [])
        self.restart()
        self._session_id = _NO_SESSION
        return request
