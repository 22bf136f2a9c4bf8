"""The producer id and epoch for the sequences of batches. They are requested once; a gap in a sequence that can't be
closed raises the epoch (KIP-360).

For idempotent producers; a transactional one gets its id from its coordinator (`transactions.py` sets it here).
"""

from collections.abc import Callable
from typing import Final

from ottla.clients.error_rules import RETRIABLE
from ottla.clients.errors import BrokerError, ClientError, UnsupportedByBroker
from ottla.clients.network.port import ANY_BROKER, Network
from ottla.core.errors import ErrorCode
from ottla.core.types import NO_PRODUCER_ID, ProducerEpoch, ProducerId
from ottla.links.backoff import Backoff
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.records.header import NO_PRODUCER_EPOCH

_LAST_EPOCH: Final = 2**15 - 1


class Identity:
    """Used in the client loop only. It calls `on_known` whenever batches can be sent again."""

    def __init__(self, network: Network, backoff: Backoff, *, on_known: Callable[[], None]) -> None:
        self.producer_id: ProducerId = NO_PRODUCER_ID
        self.producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
        self.failure: ClientError | None = None  # why there will never be an id
        self._network = network
        self._backoff = backoff
        self._on_known = on_known
        self._is_asking = False
        self._attempts = 0

    @property
    def is_known(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    def set(self, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    def ask(self) -> None:
        """Request an id unless one is known or requested already."""
        if self._is_asking or self.is_known or self.failure is not None:
            return
        self._is_asking = True
        message = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        self._network.request(ANY_BROKER, message, self._take)

    def raise_epoch(self) -> None:
        """Sequences start at 0 again, in each partition when its old batches are done."""
        if self.producer_epoch < _LAST_EPOCH:
            self.producer_epoch += 1
        else:
            self.set(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
            self.ask()

    def _take(self, answer: InitProducerIdResponse | ClientError) -> None:
        self._is_asking = False
        if isinstance(answer, UnsupportedByBroker):
            self.failure = UnsupportedByBroker(f"{answer}; set enable.idempotence=false for this cluster")
        elif isinstance(answer, ClientError) or answer.error_code in RETRIABLE:
            self._network.call_later(self._backoff.delay_ms(self._attempts), self.ask)
            self._attempts += 1
            return
        elif answer.error_code != ErrorCode.NONE:
            self.failure = BrokerError(answer.error_code, "requesting a producer id")
        else:
            self._attempts = 0
            self.set(answer.producer_id, answer.producer_epoch)
        self._on_known()
