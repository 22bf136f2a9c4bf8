"""What the handlers of group requests share: who calls, and an answer that may be there at once or come later."""

from typing import Any

from ottla.broker.api import Reply, RequestContext
from ottla.coordinator.group.member import Caller


class PendingResponse:
    """Takes the answer of a shard. Nearly all are there before the handler returns, and cost no `Deferred` then."""

    __slots__ = ("_context", "_reply", "_response")

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._reply: Reply | None = None
        self._response: Any = None

    def send(self, response: Any) -> None:
        """Called by the shard, once."""
        if self._reply is None:
            self._response = response
        else:
            self._reply.send(response)

    def result(self) -> Any:
        """What the handler returns: the response, or the reply that will carry it.

        Later requests of the connection wait meanwhile, as in Kafka: a heartbeat behind a join is looked at after it.
        """
        if self._response is None:
            self._reply = self._context.defer()
            return self._reply
        return self._response


def caller_of(context: RequestContext) -> Caller:
    return Caller(version=context.version, client_id=context.client_id, client_host=f"/{context.peer.address}")
