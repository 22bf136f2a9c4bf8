"""The broker's config as it is now. A change makes a new object, and everybody who asked to hear of it is told.

Whoever asks for a key each time he needs it asks here; whoever copies values listens. Event loop only.
"""

from collections.abc import Callable

from ottla.core.config.config import BrokerConfig


class CurrentConfig:
    """One per broker, made at its start with what the file and the store say."""

    __slots__ = ("_listeners", "value")

    def __init__(self, config: BrokerConfig) -> None:
        self.value = config
        self._listeners: list[Callable[[BrokerConfig], None]] = []

    def add_listener(self, listener: Callable[[BrokerConfig], None]) -> None:
        """Call `listener` with every later config, after those that were added before it."""
        self._listeners.append(listener)

    def replace(self, config: BrokerConfig) -> None:
        self.value = config
        for listener in self._listeners:
            listener(config)
