"""FindCoordinator 0-4: this broker coordinates every group. Transactional ids are refused: no transactions here yet."""

from ottla.broker.api import RequestContext
from ottla.broker.metadata_cache import MetadataCache
from ottla.core.cluster import BrokerEndpoint
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_GROUP = 0
_BATCHED_SINCE = 4


class FindCoordinatorHandler:
    def __init__(self, cache: MetadataCache, broker_id: BrokerId) -> None:
        self._cache = cache
        self._broker_id = broker_id

    def handle(self, request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
        keys = request.coordinator_keys if context.version >= _BATCHED_SINCE else [request.key]
        found = [self._find(key, request.key_type, context) for key in keys]
        if context.version >= _BATCHED_SINCE:
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
        endpoint = self._own_endpoint(context.peer.listener_name)
        if endpoint is None:
            return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator has no such listener")
        return Coordinator(key=key, node_id=self._broker_id, host=endpoint.host, port=endpoint.port)

    def _own_endpoint(self, listener_name: str) -> BrokerEndpoint | None:
        broker = self._cache.brokers.get(self._broker_id)
        return None if broker is None else broker.endpoint_for(listener_name)


def _refused(key: str, error_code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error_code, error_message=message)
