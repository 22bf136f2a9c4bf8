"""Fetch sessions (KIP-227): the broker remembers the partitions, and later requests have only what changed.

Pure: one session per broker; decides what to send, and handles the session id and error of an answer.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.protocol.fetch_codec import FetchPartition

_NO_SESSION: Final = 0
_FIRST_EPOCH: Final = 0
_NO_SESSION_EPOCH: Final = -1  # a full fetch without a session
_EPOCH_MAX: Final = 2**31 - 1


class SessionRequest(NamedTuple):
    """The session's part of a fetch request."""

    session_id: int
    epoch: int
    to_send: dict[TopicPartition, FetchPartition]
    to_forget: list[TopicPartition]


class FetchSession:
    """Owned by the fetcher. `build`, send, then exactly one of `on_answer` and `on_failure`."""

    __slots__ = ("_epoch", "_partitions", "_session_id")

    def __init__(self) -> None:
        self._session_id = _NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._partitions: dict[TopicPartition, FetchPartition] = {}

    @property
    def is_open(self) -> bool:
        return self._session_id != _NO_SESSION

    @property
    def partitions(self) -> Mapping[TopicPartition, FetchPartition]:
        """All partitions of the current fetch, sent or remembered."""
        return self._partitions

    def build(self, wanted: dict[TopicPartition, FetchPartition]) -> SessionRequest:
        """What to send so that the broker fetches exactly `wanted`."""
        if not self.is_open:
            self._partitions = wanted
            return SessionRequest(_NO_SESSION, self._epoch, wanted, [])
        before = self._partitions
        to_send = {
            topic_partition: asked for topic_partition, asked in wanted.items() if before.get(topic_partition) != asked
        }
        to_forget = [topic_partition for topic_partition in before if topic_partition not in wanted]
        self._partitions = wanted
        return SessionRequest(self._session_id, self._epoch, to_send, to_forget)

    def on_answer(self, error_code: int, session_id: int) -> None:
        if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._restart()  # evicted, or the broker restarted: the next request is full and opens a new session
        elif error_code != ErrorCode.NONE:
            self.on_failure()
        elif session_id == _NO_SESSION:
            self._restart()  # the broker has no room for a session now; the next request asks again
        else:
            is_new = session_id != self._session_id
            self._session_id = session_id
            self._epoch = 1 if is_new or self._epoch == _EPOCH_MAX else self._epoch + 1

    def on_failure(self) -> None:
        """The broker may or may not have got the request: the next fetch is full, in a new session."""
        self._restart()

    def closing(self) -> SessionRequest | None:
        """The request that closes the session on the broker."""
        if not self.is_open:
            return None
        request = SessionRequest(self._session_id, _NO_SESSION_EPOCH, {}, [])
        self._restart()
        return request

    def _restart(self) -> None:
        self._session_id = _NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._partitions = {}
