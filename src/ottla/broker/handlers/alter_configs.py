"""AlterConfigs 0-2: the entries of topics and brokers are replaced as a whole."""

from ottla.broker.api import Reply, RequestContext
from ottla.broker.config_alterations import ConfigAlterations, Resource, results_of
from ottla.controller.config_edits import ConfigChange, ConfigEdit, ConfigFault
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
            resources = [resource for resource, _ in changes]
            results = results_of(resources, outcomes, AlterConfigsResourceResponse)
            reply.send(AlterConfigsResponse(responses=results))

        self._alterations.alter(changes, on_done, validate_only=request.validate_only)
        return reply
