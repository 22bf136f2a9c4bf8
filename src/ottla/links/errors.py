"""What can go wrong with a request to a broker before there is an answer.

The exceptions say what was tried and on what. `clients/errors.py` adds those that follow from an answer.
"""

from ottla.core.errors import ErrorCode


class ClientError(Exception):
    """Any failure of an operation on a cluster."""


class ConnectionFailed(ClientError):
    """A broker could not be reached, or the connection broke, or no answer came in time; the broker may have acted."""


class TimedOut(ClientError, TimeoutError):
    """An operation was not done within its time."""


class RequestTimedOut(ConnectionFailed, TimedOut):
    """A request was sent, or waited to be sent, and no answer came in time; the broker may have acted."""


class ClientClosed(ClientError):
    """The client was closed before the operation was done, or before it began."""


class UnsupportedByBroker(ClientError):
    """The broker and this client have no version of a request in common."""


def error_name(error_code: int) -> str:
    """The official name of a code; for a code that is newer than this client, its number."""
    try:
        return ErrorCode(error_code).name
    except ValueError:
        return f"error code {error_code}"
