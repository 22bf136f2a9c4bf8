"""What can go wrong with a record or a transaction on the producer's side, as exceptions that a caller can tell apart.

An error code that a broker answered with is a `BrokerError`, as everywhere in the clients.
"""

from ottla.clients.errors import BrokerError, ClientClosed, ClientError, TimedOut


class ProducerClosed(ClientClosed):
    """The producer was closed: it takes nothing any more, and what it still held was given up."""


class SerializationFailed(ClientError):
    """A key, a value or a header that can't become bytes; nothing of the record was sent."""


class RecordTooLarge(ClientError):
    """A record larger than `max.request.size` or `buffer.memory` allow; nothing of it was sent."""


class BufferExhausted(TimedOut):
    """No room for a record within `max.block.ms`: the cluster takes records slower than they come."""


class NoSuchPartition(ClientError):
    """A record for a partition that its topic doesn't have."""


class DeliveryTimedOut(TimedOut):
    """A batch was not acknowledged within `delivery.timeout.ms`; it may be stored if it was under way."""


class RecordRefused(BrokerError):
    """The broker names this record as the reason why it refused the batch (KIP-467)."""


class InvalidTransactionState(ClientError):
    """A call that the state of the transaction doesn't allow, such as sending before one has begun."""


class TransactionMustAbort(ClientError):
    """Something of the transaction failed: `abort_transaction` is all that can be done with it."""


class TransactionAborted(ClientError):
    """The record belonged to a transaction that was aborted before the record was sent."""


class ProducerFenced(BrokerError):
    """A newer producer with the same `transactional.id` took over; this one can only be closed."""
