"""`ottla.aio.Admin`: the operations of the blocking `Admin`, to be awaited.

They run on one thread, one after the other, so that the event loop stays free: admin requests are few.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from typing import Any, Final, TypeVar

from ottla.clients import admin
from ottla.clients.admin_cluster import ClusterDescription, LogDirectory
from ottla.clients.admin_configs import ConfigChange, ConfigEntry, ConfigResource
from ottla.clients.admin_groups import GroupDescription, ListedGroup
from ottla.clients.admin_offsets import CommittedOffset, ListedOffset
from ottla.clients.admin_topics import CreatedTopic, TopicDescription
from ottla.clients.config import ClientConfig
from ottla.clients.errors import ClientClosed
from ottla.clients.topics import NewTopic
from ottla.core.types import BrokerId, Offset, TopicPartition
from ottla.links.addresses import Address

R = TypeVar("R")


class Admin:
    """See `ottla.Admin`. If its await is cancelled, an operation still runs to its end."""

    EARLIEST: Final = admin.Admin.EARLIEST
    LATEST: Final = admin.Admin.LATEST

    def __init__(self, config: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        self._admin = admin.Admin(config, **keywords)
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ottla-admin")

    @classmethod
    def from_properties(
        cls, path: str | PathLike[str], config: Mapping[str, Any] | None = None, /, **keywords: Any
    ) -> "Admin":
        made = cls.__new__(cls)
        made._admin = admin.Admin.from_properties(path, config, **keywords)
        made._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ottla-admin")
        return made

    @property
    def config(self) -> ClientConfig:
        return self._admin.config

    async def __aenter__(self) -> "Admin":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Waits for the current operation. A second call does nothing."""
        await asyncio.to_thread(self._admin.close)
        self._executor.shutdown(wait=False)

    async def connect(self) -> None:
        await self._run(self._admin.connect)

    async def serves(self, api_key: int) -> bool:
        return await self._run(lambda: self._admin.serves(api_key))

    async def brokers(self) -> dict[BrokerId, Address]:
        return await self._run(self._admin.brokers)

    async def describe_cluster(self) -> ClusterDescription:
        return await self._run(self._admin.describe_cluster)

    async def describe_log_dirs(
        self, topic_partitions: Iterable[TopicPartition] | None = None, *, broker_ids: Iterable[BrokerId] | None = None
    ) -> list[LogDirectory]:
        return await self._run(lambda: self._admin.describe_log_dirs(topic_partitions, broker_ids=broker_ids))

    async def list_topics(self) -> list[str]:
        return await self._run(self._admin.list_topics)

    async def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        return await self._run(lambda: self._admin.describe_topics(names))

    async def create_topics(
        self, new: Iterable[NewTopic | str], *, validate_only: bool = False, wait_for_leaders: bool = True
    ) -> dict[str, CreatedTopic]:
        return await self._run(
            lambda: self._admin.create_topics(new, validate_only=validate_only, wait_for_leaders=wait_for_leaders)
        )

    async def add_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, tuple[tuple[BrokerId, ...], ...]] | None = None,
        validate_only: bool = False,
    ) -> dict[str, int]:
        return await self._run(
            lambda: self._admin.add_partitions(counts, assignments=assignments, validate_only=validate_only)
        )

    async def delete_topics(self, names: Iterable[str]) -> None:
        await self._run(lambda: self._admin.delete_topics(names))

    async def delete_records(self, before: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, Offset]:
        return await self._run(lambda: self._admin.delete_records(before))

    async def list_offsets(
        self, topic_partitions: Iterable[TopicPartition], timestamp_ms: int, *, waits_for_leaders: bool = True
    ) -> dict[TopicPartition, ListedOffset]:
        return await self._run(
            lambda: self._admin.list_offsets(topic_partitions, timestamp_ms, waits_for_leaders=waits_for_leaders)
        )

    async def describe_configs(
        self, resources: Iterable[ConfigResource], *, with_synonyms: bool = False, with_documentation: bool = False
    ) -> dict[ConfigResource, tuple[ConfigEntry, ...]]:
        return await self._run(
            lambda: self._admin.describe_configs(
                resources, with_synonyms=with_synonyms, with_documentation=with_documentation
            )
        )

    async def alter_configs(
        self, changes: Mapping[ConfigResource, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> None:
        await self._run(lambda: self._admin.alter_configs(changes, validate_only=validate_only))

    async def list_groups(self) -> list[ListedGroup]:
        return await self._run(self._admin.list_groups)

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        return await self._run(lambda: self._admin.describe_groups(group_ids))

    async def delete_groups(self, group_ids: Iterable[str]) -> None:
        await self._run(lambda: self._admin.delete_groups(group_ids))

    async def list_group_offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        return await self._run(lambda: self._admin.list_group_offsets(group_id))

    async def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, Offset]) -> None:
        await self._run(lambda: self._admin.alter_group_offsets(group_id, offsets))

    async def delete_group_offsets(self, group_id: str, topic_partitions: Iterable[TopicPartition]) -> None:
        await self._run(lambda: self._admin.delete_group_offsets(group_id, topic_partitions))

    async def _run(self, operation: Callable[[], R]) -> R:
        if self._admin.is_closed:
            raise ClientClosed("the admin client is closed")
        return await asyncio.get_running_loop().run_in_executor(self._executor, operation)
