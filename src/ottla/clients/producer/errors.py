"""The exceptions of a producer, for records and for transactions.

An error code in a broker's answer is a `BrokerError`, as everywhere in the clients.
"""

from ottla.clients.errors import BrokerError, ClientClosed, ClientError, TimedOut


class ProducerClosed(ClientClosed):
    """The producer was closed: it takes no more records, and those that it still had failed."""


class SerializationFailed(ClientError):
    """A key, a value or a header that can't become bytes; nothing of the record was sent."""


class RecordTooLarge(ClientError):
    """A record larger than `max.request.size` or `buffer.memory` allow; nothing of it was sent."""


class BufferExhausted(TimedOut):
    """No memory for a record within `max.block.ms`: the cluster accepts records more slowly than they come."""


class NoSuchPartition(ClientError):
    """A record for a partition that its topic doesn't have."""


class DeliveryTimedOut(TimedOut):
    """A batch was not acknowledged within `delivery.timeout.ms`; if it was sent, it may be stored."""


class RecordRefused(BrokerError):
    """The broker names this record as the reason why it refused the batch (KIP-467)."""


class InvalidTransactionState(ClientError):
    """A call that the state of the transaction doesn't allow, such as sending before one has begun."""


class TransactionMustAbort(ClientError):
    """A part of the transaction failed: only `abort_transaction` is possible now."""


class TransactionAborted(ClientError):
    """The record belonged to a transaction that was aborted before the record was sent."""


class ProducerFenced(BrokerError):
    """A newer producer with the same `transactional.id` took over; this one can only be closed."""


def report_exception(message: str, *arguments: object) -> None:
    """Log what a user's code raised inside the producer: there is no caller to raise it to. For `except` blocks."""
    from logging import getLogger  # the import takes milliseconds, which only a failure costs

    getLogger("ottla.producer").exception(message, *arguments)
