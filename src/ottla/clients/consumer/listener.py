"""A user's hooks: a listener for rebalances, and interceptors of records and commits.

Both run on the user's side, inside a call such as `poll`; every method is optional. Methods of an asyncio consumer's
listener may be coroutines.
"""

import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, Protocol

from ottla.clients.consumer.values import ConsumerRecord, OffsetAndMetadata
from ottla.core.types import TopicPartition

logger: Final = logging.getLogger("ottla.clients")


class RebalanceListener:
    """Called inside `poll` when partitions are assigned or revoked.

    `on_partitions_revoked` is the last chance to commit what was read of them; lost partitions may belong to another
    member already. `poll` raises the exception of a listener, after the rebalance has continued.
    """

    def on_partitions_assigned(self, topic_partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """This consumer now owns them; `seek` here moves their positions before anything is read."""

    def on_partitions_revoked(self, topic_partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Another member will own them."""

    def on_partitions_lost(self, topic_partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """They were taken away without notice; by default this calls `on_partitions_revoked`."""
        return self.on_partitions_revoked(topic_partitions)


class Interceptor(Protocol):
    """For `interceptor.classes`; every method is optional. What they raise is only logged."""

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Called before `poll` returns records; returns these or others."""
        ...

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Called after the coordinator accepted the offsets."""
        ...

    def close(self) -> None: ...


class Interceptors:
    """All interceptors of a consumer, in order; a class is instantiated."""

    def __init__(self, given: Sequence[Any]) -> None:
        self._all = [item() if isinstance(item, type) else item for item in given]

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        for interceptor in self._all:
            if hasattr(interceptor, "on_consume"):
                try:
                    records = interceptor.on_consume(records)
                except Exception:
                    logger.exception("an interceptor's on_consume failed; poll returns the records without it")
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
