"""The APIs of groups and their offsets, for the table of what is served."""

from ottla.broker.api import Api
from ottla.broker.handlers import heartbeat, offset_commit
from ottla.broker.handlers.delete_groups import DeleteGroupsHandler
from ottla.broker.handlers.describe_groups import DescribeGroupsHandler
from ottla.broker.handlers.join_group import JoinGroupHandler
from ottla.broker.handlers.leave_group import LeaveGroupHandler
from ottla.broker.handlers.list_groups import ListGroupsHandler
from ottla.broker.handlers.offset_delete import OffsetDeleteHandler
from ottla.broker.handlers.offset_fetch import OffsetFetchHandler
from ottla.broker.handlers.sync_group import SyncGroupHandler
from ottla.broker.metadata_cache import MetadataCache
from ottla.coordinator.runtime import GroupCoordinator
from ottla.protocol.apis import ApiKey


def group_apis(coordinator: GroupCoordinator, cache: MetadataCache) -> list[Api]:
    return [
        Api(
            ApiKey.OFFSET_COMMIT,
            offset_commit.FIRST_SERVED_VERSION,
            offset_commit.LAST_SERVED_VERSION,
            handle_frame=offset_commit.OffsetCommitHandler(coordinator, cache).handle_frame,
        ),
        Api(ApiKey.OFFSET_FETCH, 1, 9, OffsetFetchHandler(coordinator).handle),
        Api(ApiKey.JOIN_GROUP, 0, 9, JoinGroupHandler(coordinator).handle),
        Api(
            ApiKey.HEARTBEAT,
            0,
            heartbeat.LAST_SERVED_VERSION,
            handle_frame=heartbeat.HeartbeatHandler(coordinator).handle_frame,
        ),
        Api(ApiKey.LEAVE_GROUP, 0, 5, LeaveGroupHandler(coordinator).handle),
        Api(ApiKey.SYNC_GROUP, 0, 5, SyncGroupHandler(coordinator).handle),
        Api(ApiKey.DESCRIBE_GROUPS, 0, 6, DescribeGroupsHandler(coordinator).handle),
        Api(ApiKey.LIST_GROUPS, 0, 5, ListGroupsHandler(coordinator).handle),
        Api(ApiKey.DELETE_GROUPS, 0, 2, DeleteGroupsHandler(coordinator).handle),
        Api(ApiKey.OFFSET_DELETE, 0, 0, OffsetDeleteHandler(coordinator, cache).handle),
    ]
