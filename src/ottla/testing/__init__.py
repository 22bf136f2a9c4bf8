"""For tests: simulated ports for Ottla's own, and a real broker inside a test for everyone (`plugin` has the fixtures).

Imports names at their first use: pytest loads this package at every start, whether a test needs a broker or not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.testing.aio import AsyncBroker as AsyncBroker
    from ottla.testing.broker import OttlaBroker as OttlaBroker
    from ottla.testing.broker_process import BrokerDied as BrokerDied
    from ottla.testing.broker_process import BrokerStartFailed as BrokerStartFailed
    from ottla.testing.faults import Fault as Fault
    from ottla.testing.faults import Hold as Hold
    from ottla.testing.faults import SeenRequest as SeenRequest
    from ottla.testing.reading import StoredRecord as StoredRecord
    from ottla.testing.waiting import WaitTimedOut as WaitTimedOut

_HOMES = {
    "AsyncBroker": "aio",
    "BrokerDied": "broker_process",
    "BrokerStartFailed": "broker_process",
    "Fault": "faults",
    "Hold": "faults",
    "OttlaBroker": "broker",
    "SeenRequest": "faults",
    "StoredRecord": "reading",
    "WaitTimedOut": "waiting",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
