"""One follower broker as a leader sees it: when it last fetched, and which of its partitions have news for it.

A follower of a thousand idle partitions must cost no more than one of ten: so it waits in one place, under itself as
the purgatory's key, and partitions say that they have news instead of being asked.
"""

from ottla.core.types import NO_BROKER_EPOCH, BrokerEpoch, BrokerId
from ottla.purgatory.purgatory import DelayedOperation, Purgatory
from ottla.replication.follower_progress import LONG_AGO_MS

# The topic's id and the partition's number: what followers name partitions by, since Fetch 13.
SessionKey = tuple[bytes, int]


class FollowerFetches:
    """Made by `Replicas` for each broker that follows a partition which is led here, and kept."""

    __slots__ = ("_waiting_fetches", "broker_epoch", "broker_id", "last_fetch_ms", "news", "waiting")

    def __init__(self, broker_id: BrokerId, waiting_fetches: Purgatory) -> None:
        self.broker_id = broker_id
        self.broker_epoch: BrokerEpoch = NO_BROKER_EPOCH  # of its last fetch
        self.last_fetch_ms = LONG_AGO_MS
        self.news: dict[SessionKey, None] = {}  # to be read; a new dict for each session
        self.waiting: DelayedOperation | None = None
        self._waiting_fetches = waiting_fetches

    def note(self, key: SessionKey) -> None:
        """A partition has records, a high watermark or a state that the follower does not know."""
        self.news[key] = None
        self._waiting_fetches.mark(self)

    def begin_session(self) -> dict[SessionKey, None]:
        """Forget what was news in the session before; the dict that is filled from now on."""
        self.news = {}
        return self.news

    def end_wait(self) -> None:
        """The follower sends another fetch: the one that waits is answered with what there is."""
        waiting = self.waiting
        if waiting is not None:
            self.waiting = None
            waiting.force_complete()
