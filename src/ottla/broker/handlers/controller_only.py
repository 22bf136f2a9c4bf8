"""Requests that only the controller decides: every other broker answers them with error 41, and clients look for it."""

from collections.abc import Callable
from typing import TypeVar

from ottla.broker.api import Reply, RequestContext
from ottla.controller.topic_faults import TopicFault
from ottla.core.errors import ErrorCode

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

NOT_CONTROLLER = TopicFault(ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")


def controller_only(
    handle: Callable[[RequestT, RequestContext], ResponseT | Reply],
    refuse: Callable[[RequestT], ResponseT],
    is_controller: Callable[[], bool],
) -> Callable[[RequestT, RequestContext], ResponseT | Reply]:
    """The handler, behind the question whether this broker is the controller now."""

    def handle_if_controller(request: RequestT, context: RequestContext) -> ResponseT | Reply:
        return handle(request, context) if is_controller() else refuse(request)

    return handle_if_controller
