"""InitProducerId 0-4: a new id for an idempotent producer. A transactional id is refused: no transactions yet."""

from ottla.broker.api import Reply, RequestContext
from ottla.broker.producer_ids import ProducerIds
from ottla.core.errors import ErrorCode
from ottla.core.types import NO_PRODUCER_ID, ProducerId
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class InitProducerIdHandler:
    def __init__(self, producer_ids: ProducerIds) -> None:
        self._producer_ids = producer_ids

    def handle(self, request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse | Reply:
        if request.transactional_id is not None:
            return InitProducerIdResponse(
                error_code=ErrorCode.INVALID_REQUEST, producer_id=NO_PRODUCER_ID, producer_epoch=-1
            )
        reply = context.defer()

        def on_id(producer_id: ProducerId | None) -> None:
            if producer_id is None:
                # Retriable: the store did not answer this time.
                failed = ErrorCode.COORDINATOR_NOT_AVAILABLE
                reply.send(InitProducerIdResponse(error_code=failed, producer_id=NO_PRODUCER_ID, producer_epoch=-1))
            else:
                reply.send(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))

        self._producer_ids.next(on_id)
        return reply
