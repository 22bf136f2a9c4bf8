"""ApiVersions 0-4: what this broker serves. An unknown version is answered by the dispatcher (KIP-511)."""

from ottla.broker.api import Dispatcher, RequestContext
from ottla.broker.connection_notes import notes_of
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

_NAME_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")


class ApiVersionsHandler:
    """Answers from the dispatcher's table, and notes which software the client says it is."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def handle(self, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
        name, version = request.client_software_name, request.client_software_version
        if context.version >= 3:
            if not (_is_legal(name) and _is_legal(version)):
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
            notes_of(context.peer).client_software = f"{name} {version}"
        return ApiVersionsResponse(api_keys=self._dispatcher.advertised(context.peer.listener_name))


def _is_legal(text: str) -> bool:
    """Letters and digits at both ends, '.' and '-' between: the rule of KIP-511."""
    return bool(text) and _NAME_LEGAL.issuperset(text) and text[0].isalnum() and text[-1].isalnum()
