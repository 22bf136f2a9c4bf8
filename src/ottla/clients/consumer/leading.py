"""What the leader of a group does for all: see every topic that anyone subscribed to, and share partitions out."""

from collections.abc import Callable, Iterable
from typing import Final

from ottla.clients.consumer.group_requests import read_members, share_out
from ottla.clients.network.metadata import Metadata
from ottla.clients.network.port import Network
from ottla.core.types import TopicPartition
from ottla.protocol.messages.join_group import JoinGroupResponseMember

_METADATA_WAIT_MS: Final = 5_000  # for topics that only others subscribed to; then without those


class Leading:
    """Owned by one `Group`; `on_topics` is called when other topics must be in view."""

    def __init__(self, network: Network, metadata: Metadata, *, on_topics: Callable[[], None]) -> None:
        self.topics: frozenset[str] = frozenset()
        self._network = network
        self._metadata = metadata
        self._on_topics = on_topics
        self._counts: dict[str, int] = {}  # what the last assignment was made from
        self._on_metadata: Callable[[], None] | None = None

    @property
    def is_outdated(self) -> bool:
        """Whether topics or partitions came or went since the last assignment."""
        return self._counts_now() != self._counts

    def lead(
        self,
        protocol_name: str,
        members: Iterable[JoinGroupResponseMember],
        on_assigned: Callable[[dict[str, list[TopicPartition]]], None],
    ) -> None:
        """Calls back with everybody's partitions, once their topics are known. Raises ProtocolViolation."""
        views = read_members(members)
        self.topics = frozenset[str]().union(*(view.topics for view in views))
        self._on_topics()

        def assign() -> None:
            self._counts = self._counts_now()
            on_assigned(share_out(protocol_name, views, self._counts))

        metadata = self._metadata
        if all(metadata.partition_count(topic) is not None or metadata.error_of(topic) for topic in self.topics):
            assign()
            return
        timer = self._network.call_later(_METADATA_WAIT_MS, lambda: answered())

        def answered() -> None:
            timer.cancel()
            self._on_metadata = None
            assign()

        self._on_metadata = answered

    def metadata_changed(self) -> None:
        if self._on_metadata is not None:
            self._on_metadata()

    def stop(self) -> None:
        """Another leads, or nobody knows who."""
        self.topics = frozenset()
        self._on_metadata = None

    def _counts_now(self) -> dict[str, int]:
        return {topic: count for topic in self.topics if (count := self._metadata.partition_count(topic))}
