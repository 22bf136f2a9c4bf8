"""A module that is imported with its first use: for public modules that many programs import and few of them use.

Under TYPE_CHECKING the real module is imported instead, so that type checkers and import rules see what is used.
"""

from importlib import import_module


class LazyModule:
    """Has the attributes of a module; reading the first of them imports it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> object:
        if attribute.startswith("__"):
            raise AttributeError(attribute)  # inspecting this object must not import the module
        value: object = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)  # the next lookup finds it without this method
        return value
