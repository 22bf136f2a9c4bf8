"""Configs of topics and brokers: describe them with sources and synonyms, and alter single keys."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.clients.admin_retry import ask_each, left_out, outcome_of
from ottla.clients.cluster import Cluster, ClusterBroker
from ottla.clients.errors import BrokerError
from ottla.core.types import BrokerId
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_RESOURCES_PER_REQUEST: Final = 500


class ResourceType(IntEnum):
    """The kind of resource that a config belongs to; the numbers are the protocol's."""

    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers are the protocol's."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigType(IntEnum):
    """The type of a value; the numbers are the protocol's."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class AlterKind(IntEnum):
    """What to do with a key; APPEND and SUBTRACT are for lists. The numbers are the protocol's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigResource(NamedTuple):
    """A topic, a broker by its id, or with an empty name the cluster-wide defaults of brokers."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        if self.type == ResourceType.BROKER and not self.name:
            return "the defaults of all brokers"
        return f"{self.type.name.lower()} {self.name}"


class ConfigSynonym(NamedTuple):
    """One of the sources of a value, the strongest first."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One key; brokers never send the value of a sensitive one."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str | None


class ConfigChange(NamedTuple):
    name: str
    kind: AlterKind
    value: str | None = None


def topic_resource(name: str) -> ConfigResource:
    return ConfigResource(ResourceType.TOPIC, name)


def broker_resource(broker_id: BrokerId | None) -> ConfigResource:
    """The resource of one broker; None for the defaults of all."""
    return ConfigResource(ResourceType.BROKER, "" if broker_id is None else str(broker_id))


def describe_configs(
    cluster: Cluster,
    resources: Iterable[ConfigResource],
    *,
    with_synonyms: bool = False,
    with_documentation: bool = False,
) -> dict[ConfigResource, tuple[ConfigEntry, ...] | BrokerError]:
    """All keys of each resource, sorted."""

    def attempt(left: list[ConfigResource]) -> dict[ConfigResource, tuple[ConfigEntry, ...] | BrokerError]:
        outcomes: dict[ConfigResource, tuple[ConfigEntry, ...] | BrokerError] = {
            resource: left_out(f"configuration of {resource}") for resource in left
        }
        for broker, asked in _by_broker(cluster, left):
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(resource_type=resource.type, resource_name=resource.name)
                    for resource in asked
                ],
                include_synonyms=with_synonyms,
                include_documentation=with_documentation,
            )
            for result in broker.request(request, DescribeConfigsResponse).results:
                resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
                entries = tuple(sorted((_entry(config) for config in result.configs), key=lambda entry: entry.name))
                what = f"configuration of {resource}"
                outcomes[resource] = outcome_of(result.error_code, what, result.error_message, entries)
        return outcomes

    return ask_each(cluster, resources, attempt)


def alter_configs(
    cluster: Cluster, changes: Mapping[ConfigResource, Sequence[ConfigChange]], *, validate_only: bool = False
) -> dict[ConfigResource, BrokerError | None]:
    """Change only these keys; for each resource all of them, or none."""

    def attempt(left: list[ConfigResource]) -> dict[ConfigResource, BrokerError | None]:
        outcomes: dict[ConfigResource, BrokerError | None] = {
            resource: left_out(f"altering {resource}") for resource in left
        }
        for broker, asked in _by_broker(cluster, left):
            altered = [
                AlterConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=[
                        AlterableConfig(name=change.name, config_operation=change.kind, value=change.value)
                        for change in changes[resource]
                    ],
                )
                for resource in asked
            ]
            request = IncrementalAlterConfigsRequest(resources=altered, validate_only=validate_only)
            for result in broker.request(request, IncrementalAlterConfigsResponse).responses:
                resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
                what = f"altering {resource}"
                outcomes[resource] = outcome_of(result.error_code, what, result.error_message, None)
        return outcomes

    return ask_each(cluster, changes, attempt)


def _by_broker(cluster: Cluster, resources: list[ConfigResource]) -> list[tuple[ClusterBroker, list[ConfigResource]]]:
    """A broker's config comes from that broker; everything else from the controller, if it is known."""
    cluster.refresh([])
    has_controller = cluster.controller_id in cluster.brokers
    common = cluster.broker(cluster.controller_id) if has_controller else cluster.any_broker()
    requests: list[tuple[ClusterBroker, list[ConfigResource]]] = []
    shared: list[ConfigResource] = []
    for resource in resources:
        if resource.type == ResourceType.BROKER and resource.name:
            requests.append((cluster.broker(int(resource.name)), [resource]))
        else:
            shared.append(resource)
    for start in range(0, len(shared), _RESOURCES_PER_REQUEST):
        requests.append((common, shared[start : start + _RESOURCES_PER_REQUEST]))
    return requests


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    synonyms = tuple(ConfigSynonym(synonym.name, synonym.value, _source(synonym.source)) for synonym in config.synonyms)
    return ConfigEntry(
        config.name,
        config.value,
        _source(config.config_source),
        ConfigType(config.config_type) if config.config_type in _CONFIG_TYPES else ConfigType.UNKNOWN,
        config.read_only,
        config.is_sensitive,
        synonyms,
        config.documentation or None,
    )


_SOURCES: Final = frozenset(source.value for source in ConfigSource)
_CONFIG_TYPES: Final = frozenset(kind.value for kind in ConfigType)


def _source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in _SOURCES else ConfigSource.UNKNOWN
