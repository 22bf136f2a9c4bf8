"""How a controller reaches the world: time, chance, and a connection to each broker."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ottla.core.clock import Clock
from ottla.core.cluster import BrokerInfo
from ottla.core.control import ControlAnswer, ControlRequest


class ControlLink(Protocol):
    """Carries control requests to brokers; to the controller's own broker by a direct call."""

    def send(
        self, broker: BrokerInfo, request: ControlRequest, on_answer: Callable[[ControlAnswer | None], None]
    ) -> None:
        """Calls `on_answer` once, perhaps before this returns; None: the connection failed, perhaps it was received.

        There is one request at a time for each registration of a broker.
        """
        ...


class ControllerPorts(NamedTuple):
    """`call_later` takes milliseconds. What it runs may come after the controller was closed, and does nothing then."""

    clock: Clock
    call_soon: Callable[[Callable[[], None]], object]
    call_later: Callable[[int, Callable[[], None]], object]
    random_bytes: Callable[[int], bytes]
    link: ControlLink
