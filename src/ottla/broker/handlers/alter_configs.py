"""AlterConfigs 0-2: the entries of topics and brokers are replaced as a whole."""

from ottla.broker.api import Reply, RequestContext
from ottla.broker.config_alterations import ConfigAlterations, Resource
from ottla.controller.config_edits import ConfigChange, ConfigEdit, ConfigFault
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


class AlterConfigsHandler:
    def __init__(self, alterations: ConfigAlterations) -> None:
        self._alterations = alterations

    def handle(self, request: AlterConfigsRequest, context: RequestContext) -> Reply:
        reply = context.defer()
        changes = [
            (
                Resource(resource.resource_type, resource.resource_name),
                ConfigChange([ConfigEdit(entry.name, entry.value) for entry in resource.configs], is_replacement=True),
            )
            for resource in request.resources
        ]

        def on_done(outcomes: list[ConfigFault | None]) -> None:
            responses = [
                AlterConfigsResourceResponse(
                    error_code=ErrorCode.NONE if fault is None else fault.error_code,
                    error_message=None if fault is None else fault.message,
                    resource_type=resource.resource_type,
                    resource_name=resource.name,
                )
                for (resource, _), fault in zip(changes, outcomes, strict=True)
            ]
            reply.send(AlterConfigsResponse(responses=responses))

        self._alterations.alter(changes, on_done, validate_only=request.validate_only)
        return reply
