"""What a user can hang into a consumer: a listener for rebalances, and interceptors of records and commits.

Both run on the user's side, within the call that found the occasion; every method is optional to override. Methods of
an asyncio consumer's listener may be coroutines.
"""

import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, Protocol

from ottla.clients.consumer.values import ConsumerRecord, OffsetAndMetadata
from ottla.core.types import TopicPartition

logger: Final = logging.getLogger("ottla.clients")


class RebalanceListener:
    """Hears of partitions that come and go, between `poll` being called and its return.

    `on_partitions_revoked` is the last occasion to commit what was read of them; those that are lost may be another's
    already. An exception of a listener comes out of `poll`, after the rebalance went on.
    """

    def on_partitions_assigned(self, topic_partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """They are this consumer's; `seek` here moves their positions before anything is read."""

    def on_partitions_revoked(self, topic_partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """They are about to be another's."""

    def on_partitions_lost(self, topic_partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """They were taken away without notice: the same as revoked unless told otherwise."""
        return self.on_partitions_revoked(topic_partitions)


class Interceptor(Protocol):
    """Of `interceptor.classes`; a missing method is passed over. What they raise is logged, not passed on."""

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Before `poll` returns them: the same or others."""
        ...

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """After the coordinator took them."""
        ...

    def close(self) -> None: ...


class Interceptors:
    """All of a consumer's, in their order; a class stands for an object of it."""

    def __init__(self, given: Sequence[Any]) -> None:
        self._all = [item() if isinstance(item, type) else item for item in given]

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        for interceptor in self._all:
            if hasattr(interceptor, "on_consume"):
                try:
                    records = interceptor.on_consume(records)
                except Exception:
                    logger.exception("an interceptor's on_consume failed; the records are passed on without it")
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for interceptor in self._all:
            if hasattr(interceptor, "on_commit"):
                try:
                    interceptor.on_commit(offsets)
                except Exception:
                    logger.exception("an interceptor's on_commit failed")

    def close(self) -> None:
        for interceptor in self._all:
            if hasattr(interceptor, "close"):
                try:
                    interceptor.close()
                except Exception:
                    logger.exception("an interceptor's close failed")
