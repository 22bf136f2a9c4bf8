"""A broker that stops asks the controller first to move its leaders away, so that clients hardly notice (Kafka's
controlled shutdown)."""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.steps import Answer, ask
from ottla.core.cluster import BrokerInfo
from ottla.core.config.config import BrokerConfig
from ottla.core.control import ControlledShutdown, ControlledShutdownAnswer
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId

_LOG = logging.getLogger("ottla.broker")

_LOOK_MS: Final = 100  # between two questions where nobody answers as the controller

OnAnswer: TypeAlias = Callable[[ControlledShutdownAnswer | None], None]


class LeavingPorts(NamedTuple):
    """How the controller is reached."""

    send: Callable[[BrokerInfo, ControlledShutdown, OnAnswer], None]  # where it is another broker
    begin_here: Callable[[ControlledShutdown, OnAnswer], None] | None  # where it is this one
    call_later: Callable[[int, Callable[[], None]], object]


async def leave(request: ControlledShutdown, config: BrokerConfig, cache: MetadataCache, ports: LeavingPorts) -> bool:
    """Whether this broker leads nothing any more that another could lead. It stops in any case."""
    if not config.get_bool("controlled.shutdown.enable"):
        return False
    looks_per_try = max(config.get_int("controlled.shutdown.retry.backoff.ms") // _LOOK_MS, 1)
    looks_left = config.get_int("controlled.shutdown.max.retries") * looks_per_try
    while _has_others(request.broker_id, cache):  # they may all stop meanwhile
        answer = await _ask_controller(request, cache, ports)
        if answer is not None and answer.error_code == ErrorCode.NONE and not answer.remaining:
            return True
        _LOG.info("controlled shutdown: %s", _state_of(answer, cache.controller_id))
        # Followers take their time to come into sync. Where there is no controller, the next one is elected soon.
        looks = looks_per_try if answer is not None and answer.error_code == ErrorCode.NONE else 1
        if looks > looks_left:
            _LOG.warning("controlled shutdown: given up; the broker stops with what it leads")
            break
        looks_left -= looks
        pause: Answer[None] = Answer()
        ports.call_later(looks * _LOOK_MS, lambda: pause.give(None))  # noqa: B023
        await pause
    return False


def _has_others(broker_id: BrokerId, cache: MetadataCache) -> bool:
    return any(other != broker_id for other in cache.brokers)


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
