"""IncrementalAlterConfigs 0-1: single entries of topics, brokers and loggers are set, deleted, appended to or cut."""

from ottla.broker.api import Reply, RequestContext
from ottla.broker.config_alterations import ConfigAlterations, Resource, results_of
from ottla.controller.config_edits import ConfigChange, ConfigEdit, ConfigFault
from ottla.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class IncrementalAlterConfigsHandler:
    def __init__(self, alterations: ConfigAlterations) -> None:
        self._alterations = alterations

    def handle(self, request: IncrementalAlterConfigsRequest, context: RequestContext) -> Reply:
        reply = context.defer()
        changes = [
            (
                Resource(resource.resource_type, resource.resource_name),
                ConfigChange(
                    [ConfigEdit(entry.name, entry.value, entry.config_operation) for entry in resource.configs]
                ),
            )
            for resource in request.resources
        ]

        def on_done(outcomes: list[ConfigFault | None]) -> None:
            resources = [resource for resource, _ in changes]
            results = results_of(resources, outcomes, AlterConfigsResourceResponse)
            reply.send(IncrementalAlterConfigsResponse(responses=results))

        self._alterations.alter(changes, on_done, validate_only=request.validate_only)
        return reply
