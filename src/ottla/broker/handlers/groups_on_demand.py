"""The APIs of groups as a broker without groups has them: their versions only. The first request loads the rest."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.api import Api
from ottla.broker.metadata_cache import MetadataCache
from ottla.protocol.apis import ApiKey

if TYPE_CHECKING:
    from ottla.broker.group_coordination import GroupCoordination

# What `group_apis` serves, told before it is imported: a tenth of a broker's start.
_VERSIONS = {
    ApiKey.OFFSET_COMMIT: (2, 9),
    ApiKey.OFFSET_FETCH: (1, 9),
    ApiKey.FIND_COORDINATOR: (0, 4),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.OFFSET_DELETE: (0, 0),
}


def groups_on_demand(groups: "Callable[[], GroupCoordination]", cache: MetadataCache) -> list[Api]:
    def load() -> list[Api]:
        from ottla.broker.handlers.find_coordinator import FindCoordinatorHandler
        from ottla.broker.handlers.group_apis import group_apis

        coordinator, offsets_topic = groups()
        find_coordinator = FindCoordinatorHandler(coordinator, offsets_topic, cache)
        apis = [
            Api(ApiKey.FIND_COORDINATOR, *_VERSIONS[ApiKey.FIND_COORDINATOR], find_coordinator.handle),
            *group_apis(coordinator, cache),
        ]
        assert {api.key: (api.min_version, api.max_version) for api in apis} == _VERSIONS
        return apis

    return [Api(key, first, last, load=load) for key, (first, last) in _VERSIONS.items()]
