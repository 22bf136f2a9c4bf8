"""What can go wrong between whoever asks a broker and that broker, before an answer says anything.

The exceptions say what was tried and on what. `clients/errors.py` adds those that follow from an answer.
"""

from ottla.core.errors import ErrorCode


class ClientError(Exception):
    """Any failure of an operation on a cluster."""


class ConnectionFailed(ClientError):
    """A broker was not reached, went away, or did not answer in time; whether it acted is not known."""


class TimedOut(ClientError, TimeoutError):
    """An operation was not done within the time that it was given."""


class RequestTimedOut(ConnectionFailed, TimedOut):
    """A request was sent, or waited to be, and no answer came in time; whether the broker acted is not known."""


class ClientClosed(ClientError):
    """The client was closed before the operation was done, or before it began."""


class UnsupportedByBroker(ClientError):
    """The broker speaks no version of a request that this client knows."""


def error_name(error_code: int) -> str:
    """The official name of a code; the number alone for one that is newer than this client."""
    try:
        return ErrorCode(error_code).name
    except ValueError:
        return f"error code {error_code}"
