"""The work of a group's leader: get metadata of every topic that a member subscribed to, and assign partitions."""

from collections.abc import Callable, Iterable
from typing import Final

from ottla.clients.consumer.group_requests import assign_partitions, read_members
from ottla.clients.network.metadata import Metadata
from ottla.clients.network.port import Network
from ottla.core.types import TopicPartition
from ottla.protocol.messages.join_group import JoinGroupResponseMember

_METADATA_WAIT_MS: Final = 5_000  # for topics that only others subscribed to; after that it assigns without those


class Leading:
    """Owned by one `Group`; calls `on_topics` when it needs metadata of other topics."""

    def __init__(self, network: Network, metadata: Metadata, *, on_topics: Callable[[], None]) -> None:
        self.topics: frozenset[str] = frozenset()
        self._network = network
        self._metadata = metadata
        self._on_topics = on_topics
        self._counts: dict[str, int] = {}  # the partition counts of the last assignment
        self._on_metadata: Callable[[], None] | None = None

    @property
    def is_outdated(self) -> bool:
        """Whether topics or partitions changed since the last assignment."""
        return self._counts_now() != self._counts

    def lead(
        self,
        protocol_name: str,
        members: Iterable[JoinGroupResponseMember],
        on_assigned: Callable[[dict[str, list[TopicPartition]]], None],
    ) -> None:
        """Call back with the partitions of all members, once their topics are known. Raises ProtocolViolation."""
        views = read_members(members)
        self.topics = frozenset[str]().union(*(view.topics for view in views))
        self._on_topics()

        def assign() -> None:
            self._counts = self._counts_now()
            on_assigned(assign_partitions(protocol_name, views, self._counts))

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
        """Another member leads, or the leader is not known."""
        self.topics = frozenset()
        self._on_metadata = None

    def _counts_now(self) -> dict[str, int]:
        return {topic: count for topic in self.topics if (count := self._metadata.partition_count(topic))}
