"""A broker's controller, wired to its rooms: the same for a broker alone and for one among others."""

from collections.abc import Callable

from ottla.broker.local_topics import LocalTopics
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.ports import BrokerPorts
from ottla.broker.timers import Timers
from ottla.controller.controller import Controller
from ottla.controller.ports import ControllerPorts, ControlLink
from ottla.controller.state import StoredBrokerConfigs
from ottla.coordination.store import Store
from ottla.core.cluster import BrokerInfo
from ottla.core.config.current import CurrentConfig
from ottla.core.control import ControlAnswer, ControlRequest
from ottla.core.types import BrokerId


class DirectLink:
    """The way of a controller that has no broker but its own: a call."""

    def __init__(self, local_topics: LocalTopics) -> None:
        self._local_topics = local_topics

    def send(
        self, broker: BrokerInfo, request: ControlRequest, on_answer: Callable[[ControlAnswer | None], None]
    ) -> None:
        self._local_topics.handle(request, on_answer)


def make_controller(
    store: Store,
    ports: BrokerPorts,
    timers: Timers,
    link: ControlLink,
    cache: MetadataCache,
    local_topics: LocalTopics,
    current: CurrentConfig,
    *,
    broker_id: BrokerId,
    ignores_case: Callable[[], bool],
    stored_configs: Callable[[], StoredBrokerConfigs],
    on_elected: Callable[[int], None],
    on_resigned: Callable[[], None],
    on_problem: Callable[[str], None],
) -> Controller:
    def on_controller(controller_id: BrokerId) -> None:
        cache.controller_id = controller_id

    return Controller(
        store,
        ControllerPorts(ports.clock, ports.loop.call_soon, timers.call_later, ports.random.randbytes, link),
        current,
        broker_id=broker_id,
        stored_configs=stored_configs,
        ignores_case=ignores_case,
        seen_topic=lambda name: cache.topics.get(name),
        on_topic_configs=local_topics.use_topic_config,
        on_elected=on_elected,
        on_resigned=on_resigned,
        on_controller=on_controller,
        on_problem=on_problem,
    )
