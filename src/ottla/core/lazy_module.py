"""A module that is imported when something of it is used: for faces that are imported by many and started by few.

Under TYPE_CHECKING the real one is imported instead, so checkers and import rules see what is used.
"""

from importlib import import_module


class LazyModule:
    """Has the attributes of a module; the first of them that is asked for imports it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> object:
        if attribute.startswith("__"):
            raise AttributeError(attribute)  # whoever looks at what this is must not import it
        value: object = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)  # found without this method from now on
        return value
