"""A broker that stops asks the controller first to move its leaders away, so that clients hardly notice (Kafka's
controlled shutdown)."""

import logging
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.steps import Answer, ask
from ottla.core.cluster import BrokerInfo
from ottla.core.config.config import BrokerConfig
from ottla.core.control import ControlledShutdown, ControlledShutdownAnswer
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId

_LOG = logging.getLogger("ottla.broker")

OnAnswer: TypeAlias = Callable[[ControlledShutdownAnswer | None], None]


class LeavingPorts(NamedTuple):
    """How the controller is reached."""

    send: Callable[[BrokerInfo, ControlledShutdown, OnAnswer], None]  # where it is another broker
    begin_here: Callable[[ControlledShutdown, OnAnswer], None] | None  # where it is this one
    call_later: Callable[[int, Callable[[], None]], object]
    is_registered: Callable[[], bool] = lambda: True  # else the controller has others lead already


async def leave(request: ControlledShutdown, config: BrokerConfig, cache: MetadataCache, ports: LeavingPorts) -> bool:
    """Whether this broker leads nothing any more that another could lead. It stops in any case."""
    others = [broker_id for broker_id in cache.brokers if broker_id != request.broker_id]
    if not others or not config.get_bool("controlled.shutdown.enable"):
        return False
    for tries_left in range(config.get_int("controlled.shutdown.max.retries"), -1, -1):
        if not ports.is_registered():
            _LOG.info("controlled shutdown: this broker is not registered any more")
            return True
        answer = await _ask_controller(request, cache, ports)
        if answer is not None and answer.error_code == ErrorCode.NONE and not answer.remaining:
            return True
        _LOG.info("controlled shutdown: %s", _state_of(answer, cache.controller_id))
        if tries_left:
            pause: Answer[None] = Answer()
            ports.call_later(config.get_int("controlled.shutdown.retry.backoff.ms"), lambda: pause.give(None))  # noqa: B023
            await pause
    _LOG.warning("controlled shutdown: given up; the broker stops with what it leads")
    return False


async def _ask_controller(
    request: ControlledShutdown, cache: MetadataCache, ports: LeavingPorts
) -> ControlledShutdownAnswer | None:
    """None: there is no controller, or it does not answer."""
    answer: ControlledShutdownAnswer | None = None
    if cache.controller_id == request.broker_id:
        if ports.begin_here is not None:
            answer = await ask(ports.begin_here, request)
        return answer
    controller = cache.brokers.get(cache.controller_id)
    if controller is not None:
        answer = await ask(ports.send, controller, request)
    return answer


def _state_of(answer: ControlledShutdownAnswer | None, controller_id: BrokerId) -> str:
    if answer is None:
        return f"the controller (broker {controller_id}) does not answer"
    if answer.error_code:
        return f"broker {controller_id} answered {answer.error_code.name}"
    return f"{len(answer.remaining)} partitions are still led here"
