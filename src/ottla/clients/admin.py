"""`Admin`: the blocking admin client. Each operation is a function of an `admin_*` module.

An operation on several things has an outcome for each. If any failed, it raises `OperationFailed`, which has them all.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Final, TypeVar

from ottla.clients import admin_cluster, admin_configs, admin_groups, admin_offsets, admin_topics, topics
from ottla.clients.admin_cluster import ClusterDescription, LogDirectory
from ottla.clients.admin_configs import ConfigChange, ConfigEntry, ConfigResource
from ottla.clients.admin_groups import GroupDescription, ListedGroup
from ottla.clients.admin_offsets import CommittedOffset, ListedOffset
from ottla.clients.admin_topics import CreatedTopic, TopicDescription
from ottla.clients.cluster import Cluster
from ottla.clients.config import ClientConfig, ClientDefinition
from ottla.clients.errors import BrokerError, ClientClosed, OperationFailed
from ottla.clients.topics import NewTopic
from ottla.core.config.definition import ConfigKey
from ottla.core.config.values import ConfigType
from ottla.core.types import BrokerId, Offset, TopicPartition
from ottla.links.addresses import Address

ADMIN_DEFINITION: Final = ClientDefinition(
    "admin",
    (
        ConfigKey(
            "default.api.timeout.ms",
            ConfigType.INT,
            60_000,
            "How long an operation is retried while the cluster answers with retriable errors.",
            at_least=0,
        ),
    ),
    not_served={
        "retries": "default.api.timeout.ms is the limit",
        "metadata.max.age.ms": "every operation fetches new metadata",
        "bootstrap.controllers": "brokers are asked",
    },
)

K = TypeVar("K")
R = TypeVar("R")


class Admin:
    """Several threads may share it: one operation at a time, the others wait. The first operation connects."""

    # For `list_offsets`, instead of a time.
    EARLIEST: Final = topics.EARLIEST
    LATEST: Final = topics.LATEST

    def __init__(self, config: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        """Kafka's keys, in a dict or as keywords with underscores; ConfigError lists every problem."""
        self._start(ClientConfig.parse(ADMIN_DEFINITION, config, **keywords))

    @classmethod
    def from_properties(
        cls, path: str | PathLike[str], config: Mapping[str, Any] | None = None, /, **keywords: Any
    ) -> "Admin":
        """From a properties file, with `config` on top; unknown keys in the file give a warning."""
        admin = cls.__new__(cls)
        admin._start(ClientConfig.from_properties(ADMIN_DEFINITION, path, config, **keywords))
        return admin

    def _start(self, config: ClientConfig) -> None:
        self.config = config
        self._lock = threading.Lock()
        self._is_closed = False
        self._cluster = Cluster(
            config.bootstrap,
            client_id=config.client_id,
            settings=config.network_settings(),
            retry_timeout_ms=config.get_int("default.api.timeout.ms"),
            backoff=config.retry_backoff(),
        )

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """Waits for the current operation. A second call does nothing."""
        with self._lock:
            self._is_closed = True
            self._cluster.close()

    # The cluster.

    def connect(self) -> None:
        """Connect to any broker, or raise at once: no retries."""
        self._run(lambda cluster: cluster.refresh([]))

    def serves(self, api_key: int) -> bool:
        """Whether the cluster has an API of the protocol."""
        return self._run(lambda cluster: cluster.retry(lambda: cluster.any_broker().serves(api_key)))

    def brokers(self) -> dict[BrokerId, Address]:
        """The live brokers and their addresses."""

        def ask(cluster: Cluster) -> dict[BrokerId, Address]:
            cluster.retry(lambda: cluster.refresh([]))
            return dict(cluster.brokers)

        return self._run(ask)

    def describe_cluster(self) -> ClusterDescription:
        return self._run(admin_cluster.describe_cluster)

    def describe_log_dirs(
        self, topic_partitions: Iterable[TopicPartition] | None = None, *, broker_ids: Iterable[BrokerId] | None = None
    ) -> list[LogDirectory]:
        """The log directories of these brokers, or of all, with these partitions, or with all."""
        return self._run(
            lambda cluster: admin_cluster.describe_log_dirs(cluster, topic_partitions, broker_ids=broker_ids)
        )

    # Topics.

    def list_topics(self) -> list[str]:
        """The names of all topics, sorted, internal topics included."""
        return self._run(topics.list_topics)

    def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        """These topics, or all."""
        return self._run_each(lambda cluster: admin_topics.describe_topics(cluster, names))

    def create_topics(
        self, new: Iterable[NewTopic | str], *, validate_only: bool = False, wait_for_leaders: bool = True
    ) -> dict[str, CreatedTopic]:
        """Create topics; a name alone takes the broker's defaults. Returns when they can be written to."""
        wanted = [NewTopic(topic) if isinstance(topic, str) else topic for topic in new]

        def ask(cluster: Cluster) -> dict[str, CreatedTopic | BrokerError]:
            outcomes = admin_topics.create_each(cluster, wanted, validate_only=validate_only)
            made = [name for name, outcome in outcomes.items() if not isinstance(outcome, BrokerError)]
            if made and wait_for_leaders and not validate_only:
                topics.wait_for_leaders(cluster, made)
            return outcomes

        return self._run_each(ask)

    def add_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, tuple[tuple[BrokerId, ...], ...]] | None = None,
        validate_only: bool = False,
    ) -> dict[str, int]:
        """Raise topics to these partition counts; `assignments` has the replicas of the new partitions only."""
        return self._run_each(
            lambda cluster: admin_topics.add_partitions(
                cluster, counts, assignments=assignments, validate_only=validate_only
            )
        )

    def delete_topics(self, names: Iterable[str]) -> None:
        self._run_each(lambda cluster: admin_topics.delete_each(cluster, names))

    def delete_records(self, before: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, Offset]:
        """Delete all records before these offsets; returns the new log start offset of each partition."""
        return self._run(lambda cluster: topics.delete_records(cluster, before))

    def list_offsets(
        self, topic_partitions: Iterable[TopicPartition], timestamp_ms: int, *, waits_for_leaders: bool = True
    ) -> dict[TopicPartition, ListedOffset]:
        """The first offset at or after a time; `EARLIEST` and `LATEST` are the ends of the log."""
        return self._run_each(
            lambda cluster: admin_offsets.list_each_offset(
                cluster, topic_partitions, timestamp_ms, waits_for_leaders=waits_for_leaders
            )
        )

    # Configurations.

    def describe_configs(
        self, resources: Iterable[ConfigResource], *, with_synonyms: bool = False, with_documentation: bool = False
    ) -> dict[ConfigResource, tuple[ConfigEntry, ...]]:
        """All keys of each resource, sorted."""
        return self._run_each(
            lambda cluster: admin_configs.describe_configs(
                cluster, resources, with_synonyms=with_synonyms, with_documentation=with_documentation
            )
        )

    def alter_configs(
        self, changes: Mapping[ConfigResource, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> None:
        """Change only these keys; for each resource all of them, or none."""
        self._run_each(lambda cluster: admin_configs.alter_configs(cluster, changes, validate_only=validate_only))

    # Groups.

    def list_groups(self) -> list[ListedGroup]:
        return self._run(admin_groups.list_groups)

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        return self._run_each(lambda cluster: admin_groups.describe_each_group(cluster, group_ids))

    def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups that have no members."""
        self._run_each(lambda cluster: admin_groups.delete_groups(cluster, group_ids))

    def list_group_offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """All committed offsets of a group; none for a group that doesn't exist."""
        return self._run(lambda cluster: admin_offsets.fetch_offsets(cluster, group_id))

    def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Set the offsets of a group that has no members."""
        self._run_each(lambda cluster: admin_offsets.commit_offsets(cluster, group_id, offsets))

    def delete_group_offsets(self, group_id: str, topic_partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets of a group; refused for topics that its members are subscribed to."""
        self._run_each(lambda cluster: admin_offsets.delete_offsets(cluster, group_id, topic_partitions))

    # Inside.

    def _run(self, operation: Callable[[Cluster], R]) -> R:
        with self._lock:
            if self._is_closed:
                raise ClientClosed("the admin client is closed")
            return operation(self._cluster)

    def _run_each(self, operation: Callable[[Cluster], Mapping[K, R | BrokerError]]) -> dict[K, R]:
        outcomes = self._run(operation)
        done: dict[K, R] = {}
        failures: dict[K, BrokerError] = {}
        for key, outcome in outcomes.items():
            if isinstance(outcome, BrokerError):
                failures[key] = outcome
            else:
                done[key] = outcome
        if failures:
            raise OperationFailed(outcomes, failures)
        return done
