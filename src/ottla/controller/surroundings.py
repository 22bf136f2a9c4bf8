"""What all terms of one broker as the controller have in common."""

from collections.abc import Callable
from typing import NamedTuple

from ottla.controller.ports import ControllerPorts
from ottla.controller.state import StoredBrokerConfigs
from ottla.controller.topics import Topics
from ottla.coordination.store import Store
from ottla.core.config.current import CurrentConfig
from ottla.core.types import BrokerId


class Surroundings(NamedTuple):
    """Made by `Controller`."""

    store: Store
    ports: ControllerPorts
    current: CurrentConfig
    broker_id: BrokerId
    topics: Topics
    stored_configs: Callable[[], StoredBrokerConfigs]
    ignores_case: Callable[[], bool]
    # The controller's own broker uses a topic's config at once; others hear of it by the note in the store.
    on_topic_configs: Callable[[str, dict[str, str]], None]
