"""Handlers that few clients ever call: imported and made with their first request, so that starting stays fast."""

from collections.abc import Callable
from typing import Any

from ottla.broker.api import MessageHandler, RequestContext


def made_when_asked(make: Callable[[], MessageHandler]) -> MessageHandler:
    made: MessageHandler | None = None

    def handle(request: Any, context: RequestContext) -> Any:
        nonlocal made
        if made is None:
            made = make()
        return made(request, context)

    return handle
