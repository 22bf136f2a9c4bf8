"""ListConfigResources 0-1: the names of what can have configs, from version 1 on of the types that are asked for.

Groups and client metrics have no configs here, so their lists are empty, as in a Kafka where none was set.
"""

from ottla.broker.api import RequestContext
from ottla.broker.config_alterations import ResourceType
from ottla.broker.metadata_cache import MetadataCache
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_TYPES_SINCE = 1


class ListConfigResourcesHandler:
    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache

    def handle(self, request: ListConfigResourcesRequest, context: RequestContext) -> ListConfigResourcesResponse:
        if context.version < _TYPES_SINCE:
            return ListConfigResourcesResponse(config_resources=self._resources_of(ResourceType.CLIENT_METRICS))
        try:
            wanted = sorted({ResourceType(code) for code in request.resource_types}) or list(ResourceType)
        except ValueError:
            # As Kafka: a type that this version of the request can't list.
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        return ListConfigResourcesResponse(
            config_resources=[resource for resource_type in wanted for resource in self._resources_of(resource_type)]
        )

    def _resources_of(self, resource_type: ResourceType) -> list[ConfigResource]:
        names: list[str] = []
        if resource_type == ResourceType.TOPIC:
            names = list(self._cache.topics)
        elif resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
            names = [str(broker_id) for broker_id in self._cache.brokers]
        return [ConfigResource(resource_name=name, resource_type=resource_type) for name in names]
