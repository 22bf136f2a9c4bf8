"""Topics that a broker creates because somebody asks for them: by the controller where it is this broker, else in the
tree.

As in Kafka, every broker may write a new topic's node. The controller sees it, elects leaders and makes the rest; until
clients see the topic, they are told to ask again.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias

from ottla.broker.metadata_cache import MetadataCache
from ottla.controller.deltas import TopicCreated
from ottla.controller.events import Inputs
from ottla.controller.new_topics import NewTopic
from ottla.controller.state import ClusterState, StoredBrokerConfigs
from ottla.controller.topic_faults import TopicFault, fault_of_store
from ottla.controller.topic_nodes import new_node
from ottla.coordination import paths
from ottla.coordination.store import Create, Result, Store
from ottla.core.cluster import TopicImage
from ottla.core.config.current import CurrentConfig

OnCreated: TypeAlias = Callable[[TopicImage | TopicFault], None]


class TopicCreator(Protocol):
    """Who makes a topic when it is first needed."""

    def create(self, new: NewTopic, on_done: OnCreated) -> None: ...


class TopicCreation:
    """Owned by the broker; event loop only."""

    def __init__(
        self,
        controller: TopicCreator,
        store: Store,
        cache: MetadataCache,
        current: CurrentConfig,
        *,
        is_controller: Callable[[], bool],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._controller = controller
        self._store = store
        self._cache = cache
        self._current = current
        self._is_controller = is_controller
        self._random_bytes = random_bytes

    def create(self, new: NewTopic, on_done: OnCreated) -> None:
        """Calls `on_done` when clients can use the topic or, on another broker than the controller, when it is written:
        then it may be missing in the metadata still."""
        if self._is_controller():
            self._controller.create(new, on_done)
        else:
            self._write(new, on_done)

    def _write(self, new: NewTopic, on_done: OnCreated) -> None:
        # What this broker knows may be old; of two topics of one name the store takes only the first.
        state = ClusterState(self._cache.topics.values(), StoredBrokerConfigs({}, {}))
        live = sorted(self._cache.brokers)
        decided = new.decide(state, Inputs(self._current.value, live, 0, self._random_bytes), None)
        if isinstance(decided, TopicFault):
            on_done(decided)
            return
        assert isinstance(decided.delta, TopicCreated)
        image = decided.delta.image
        writes = [
            Create(paths.config_path("topics", image.name), paths.encode_config(image.configs)),
            Create(paths.topic_path(image.name), new_node(image)),
        ]
        self._store.multi(writes, partial(_on_written, image, on_done))


def _on_written(image: TopicImage, on_done: OnCreated, result: Result) -> None:
    on_done(image if result.is_ok else fault_of_store(image.name, result))
