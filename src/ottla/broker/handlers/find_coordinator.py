"""FindCoordinator 0-4: the broker that leads a group's partition of __consumer_offsets, which is made if it is missing.

Differs from Apache Kafka in one thing: the first answer waits for the topic, so that the client needs no second try.
Transactional ids are refused: no transactions here yet.
"""

from ottla.broker.api import Reply, RequestContext
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.offsets_topic import OffsetsTopic
from ottla.coordinator.group.coordinator import GroupCoordinator
from ottla.core.cluster import OFFSETS_TOPIC, BrokerEndpoint
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_GROUP = 0
_BATCHED_SINCE = 4


class FindCoordinatorHandler:
    def __init__(
        self,
        coordinator: GroupCoordinator,
        offsets_topic: OffsetsTopic,
        cache: MetadataCache,
        *,
        broker_id: BrokerId,
    ) -> None:
        self._broker_id = broker_id
        self._coordinator = coordinator
        self._offsets_topic = offsets_topic
        self._cache = cache

    def handle(self, request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse | Reply:
        if request.key_type != _GROUP or self._coordinator.partition_count:
            return self._respond(request, context)
        reply = context.defer()
        self._offsets_topic.ensure(lambda: reply.send(self._respond(request, context)))
        return reply

    def _respond(self, request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
        is_batched = context.version >= _BATCHED_SINCE
        keys = request.coordinator_keys if is_batched else [request.key]
        found = [self._find(key, request.key_type, context) for key in keys]
        if is_batched:
            return FindCoordinatorResponse(coordinators=found)
        only = found[0]
        return FindCoordinatorResponse(
            error_code=only.error_code,
            error_message=only.error_message,
            node_id=only.node_id,
            host=only.host,
            port=only.port,
        )

    def _find(self, key: str, key_type: int, context: RequestContext) -> Coordinator:
        if key_type != _GROUP:
            return _refused(key, ErrorCode.INVALID_REQUEST, f"coordinators of kind {key_type} are not served")
        if not key:
            return _refused(key, ErrorCode.INVALID_GROUP_ID, "a group id can't be empty")
        leader = self._leader_for(key)
        if leader is None:
            return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{OFFSETS_TOPIC} can't be used now")
        endpoint = self._endpoint(leader, context.peer.listener_name)
        if endpoint is None:
            return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator has no such listener")
        return Coordinator(key=key, node_id=leader, host=endpoint.host, port=endpoint.port)

    def _leader_for(self, group_id: str) -> BrokerId | None:
        """The live leader of the group's partition, unless it is this broker and its log can't be used."""
        coordinator = self._coordinator
        image = self._cache.topics.get(OFFSETS_TOPIC)
        if image is None or not coordinator.partition_count:
            return None
        state = image.partitions.get(coordinator.partition_for(group_id))
        if state is None or state.leader not in self._cache.brokers:
            return None
        if state.leader == self._broker_id and coordinator.shard_for(group_id) == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            return None
        return state.leader

    def _endpoint(self, broker_id: BrokerId, listener_name: str) -> BrokerEndpoint | None:
        broker = self._cache.brokers.get(broker_id)
        return None if broker is None else broker.endpoint_for(listener_name)


def _refused(key: str, error_code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error_code, error_message=message)
