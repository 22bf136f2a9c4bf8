"""The exceptions of all clients; they say what was tried and on what.

An error code in an answer is a value until a caller decides that it ends the operation; then it is a `BrokerError`.
"""

from collections.abc import Mapping
from typing import Any

from ottla.clients.error_rules import RETRIABLE
from ottla.core.errors import ErrorCode
from ottla.links.errors import (
    ClientClosed,
    ClientError,
    ConnectionFailed,
    RequestTimedOut,
    TimedOut,
    UnsupportedByBroker,
    error_name,
)

__all__ = [
    "BrokerError",
    "ClientClosed",
    "ClientError",
    "ConnectionFailed",
    "OperationFailed",
    "RequestTimedOut",
    "TimedOut",
    "UnsupportedByBroker",
    "check",
    "error_name",
]


class BrokerError(ClientError):
    """The cluster answered with an error code that ends the operation."""

    def __init__(self, error_code: int, what: str, message: str | None = None) -> None:
        self.error_code = error_code
        self.message = message  # of the broker
        super().__init__(f"{what}: {error_name(error_code)}" + (f" ({message})" if message else ""))

    @property
    def is_retriable(self) -> bool:
        return self.error_code in RETRIABLE


class OperationFailed(BrokerError):
    """One or more parts of an operation failed. `outcomes` has every result or error; the code is the first error's."""

    def __init__(self, outcomes: Mapping[Any, Any], failures: Mapping[Any, BrokerError]) -> None:
        first = next(iter(failures.values()))
        others = f"; {len(failures) - 1} more failed" if len(failures) > 1 else ""
        ClientError.__init__(self, f"{first}{others}")
        self.error_code = first.error_code
        self.message = first.message
        self.outcomes = dict(outcomes)
        self.failures = dict(failures)


def check(error_code: int, what: str, message: str | None = None) -> None:
    """Raise BrokerError unless the code is NONE."""
    if error_code != ErrorCode.NONE:
        raise BrokerError(error_code, what, message)
