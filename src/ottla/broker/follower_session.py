"""The fetch session of a follower (KIP-227): what it fetches of this broker, and what it knows of each partition.

One for each follower, never evicted: a follower that had to name thousands of partitions again and again would fall
behind. What it does not name and what has no news is not looked at: an idle partition costs nothing.
"""

from collections.abc import Iterable

from ottla.core.errors import ErrorCode
from ottla.core.types import Offset
from ottla.protocol.fetch_codec import EpochEndOffset, FetchedPartition, FetchPartition
from ottla.replication.follower_fetches import FollowerFetches, SessionKey

_EPOCH_MAX = 2**31 - 1


class FollowedPartition:
    """One partition of a session: what the follower wants of it, and what the last answer said."""

    __slots__ = ("diverging_epoch", "error_code", "high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: FetchPartition) -> None:
        self.wanted = wanted
        self.high_watermark: Offset = -1
        self.log_start_offset: Offset = -1
        self.error_code = 0
        self.diverging_epoch: EpochEndOffset | None = None

    def want(self, wanted: FetchPartition) -> None:
        """The follower names it again: it hears of an error again, too."""
        self.wanted = wanted
        self.error_code = 0
        self.diverging_epoch = None

    @property
    def is_served(self) -> bool:
        """Nothing has to change before the follower gets records."""
        return self.error_code == 0 and self.diverging_epoch is None

    def is_news(self, fetched: FetchedPartition) -> bool:
        """Whether the follower has to hear of it though there are no records for it."""
        return (
            fetched.error_code != self.error_code
            or fetched.diverging_epoch != self.diverging_epoch
            or (
                fetched.error_code == 0
                and (fetched.high_watermark != self.high_watermark or fetched.log_start_offset != self.log_start_offset)
            )
        )

    def remember(self, fetched: FetchedPartition) -> None:
        self.error_code = fetched.error_code
        self.diverging_epoch = fetched.diverging_epoch
        # After an error the follower hears of the partition when it is served again, though nothing has moved.
        self.high_watermark = -1 if fetched.error_code else fetched.high_watermark
        self.log_start_offset = fetched.log_start_offset


class FollowerSession:
    """Made by a full fetch; the next full fetch of the follower takes its place."""

    __slots__ = ("epoch", "fetches", "news", "partitions", "session_id")

    def __init__(self, session_id: int, fetches: FollowerFetches) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.fetches = fetches
        self.partitions: dict[SessionKey, FollowedPartition] = {}
        self.news = fetches.begin_session()  # filled by the partitions, too

    def resume(self, session_id: int, *, epoch: int) -> ErrorCode:
        """An incremental fetch goes on with it; its epoch moves on."""
        if session_id != self.session_id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if epoch != self.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        self.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        return ErrorCode.NONE

    def update(self, named: Iterable[tuple[SessionKey, FetchPartition]]) -> None:
        """Take in what a request names; all of it is read."""
        partitions = self.partitions
        news = self.news
        for key, wanted in named:
            followed = partitions.get(key)
            if followed is None:
                partitions[key] = FollowedPartition(wanted)
            else:
                followed.want(wanted)
            news[key] = None

    def forget(self, key: SessionKey) -> None:
        self.partitions.pop(key, None)
        self.news.pop(key, None)
