"""DescribeCluster 0-1: the cluster's id, its controller and its live brokers.

Every endpoint of this broker is one for clients: a request for controllers (endpoint type 2) gets error 114.
"""

from ottla.broker.api import RequestContext
from ottla.broker.handlers.authorized_operations import ALL_CLUSTER_OPERATIONS
from ottla.broker.metadata_cache import MetadataCache
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS = 1
_CONTROLLERS = 2


class DescribeClusterHandler:
    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache

    def handle(self, request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
        if request.endpoint_type == _CONTROLLERS:
            return DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                error_message="this endpoint is of type BROKER, one of type CONTROLLER was asked for",
            )
        if request.endpoint_type != _BROKERS:
            return DescribeClusterResponse(
                error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                error_message=f"endpoint type {request.endpoint_type} is unknown, 1 stands for brokers",
            )
        cache = self._cache
        response = DescribeClusterResponse(
            cluster_id=cache.cluster_id,
            controller_id=cache.controller_id,
            brokers=[
                DescribeClusterBroker(
                    broker_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
                for broker, endpoint in cache.brokers_on(context.peer.listener_name)
            ],
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS
        return response
