"""ControlledShutdown 0: a broker that wants to stop asks the controller to move its leaders away first."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.api import Reply, RequestContext
from ottla.core.control import ControlledShutdownAnswer
from ottla.core.errors import ErrorCode
from ottla.protocol.control_codec import shutdown_of, shutdown_response
from ottla.protocol.control_messages import ControlledShutdownRequest, ControlledShutdownResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.served import BeginShutdown


class ControlledShutdownHandler:
    def __init__(self, begin_shutdown: "BeginShutdown | None", is_controller: Callable[[], bool]) -> None:
        self._begin_shutdown = begin_shutdown
        self._is_controller = is_controller

    def handle(self, request: ControlledShutdownRequest, context: RequestContext) -> ControlledShutdownResponse | Reply:
        if self._begin_shutdown is None or not self._is_controller():
            return shutdown_response(ControlledShutdownAnswer(ErrorCode.NOT_CONTROLLER))
        reply = context.defer()
        self._begin_shutdown(shutdown_of(request), lambda answer: reply.send(shutdown_response(answer)))
        return reply
