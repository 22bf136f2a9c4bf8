"""The broker's current config. A change replaces the object and calls every listener.

Code that reads a key each time it needs it reads it here; code that copies values adds a listener. Event loop only.
"""

from collections.abc import Callable

from ottla.core.config.config import BrokerConfig


class CurrentConfig:
    """One per broker, created at its start from the file and the store."""

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
