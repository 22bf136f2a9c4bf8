"""What a request makes of the entries that a topic or a broker has: set, delete, append, subtract, or all replaced.

Pure: it knows no store and does not check values. The events that use it do that.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.core.config.config import Configuration
from ottla.core.config.values import ConfigType, parse_value, render_value
from ottla.core.errors import ErrorCode


class ConfigOperation(IntEnum):
    """With the codes of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigEdit(NamedTuple):
    """One entry of a request; the operation is as it came, perhaps unknown."""

    name: str
    value: str | None
    operation: int = ConfigOperation.SET


class ConfigChange(NamedTuple):
    """All that one request wants of one resource; a replacement drops every entry that it does not name."""

    edits: Sequence[ConfigEdit]
    is_replacement: bool = False


class ConfigFault(NamedTuple):
    """Why nothing was changed."""

    error_code: ErrorCode
    message: str


def changed_entries(
    entries: Mapping[str, str], change: ConfigChange, in_force: Configuration
) -> dict[str, str] | ConfigFault:
    """The entries after the change. A list that has no entry yet is appended to as it is in force."""
    names = {edit.name for edit in change.edits}
    if len(names) < len(change.edits):
        return ConfigFault(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    changed = {} if change.is_replacement else dict(entries)
    for edit in change.edits:
        if edit.operation not in _OPERATIONS:
            return ConfigFault(
                ErrorCode.INVALID_REQUEST,
                f"{edit.name}: there is no operation {edit.operation}; 0 to 3 are SET, DELETE, APPEND and SUBTRACT",
            )
        if edit.operation == ConfigOperation.DELETE:
            changed.pop(edit.name, None)
        elif edit.value is None:
            return ConfigFault(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {edit.name}")
        elif edit.operation == ConfigOperation.SET:
            changed[edit.name] = edit.value
        else:
            text = _list_after(edit, changed.get(edit.name), in_force)
            if isinstance(text, ConfigFault):
                return text
            changed[edit.name] = text
    return changed


def names_set_by(change: ConfigChange) -> frozenset[str]:
    """The keys whose values a change sets."""
    return frozenset(edit.name for edit in change.edits if edit.operation != ConfigOperation.DELETE)


_OPERATIONS = frozenset(ConfigOperation)


def _list_after(edit: ConfigEdit, text: str | None, in_force: Configuration) -> str | ConfigFault:
    key = in_force.definition.keys.get(edit.name)
    operation = ConfigOperation(edit.operation)
    if key is None or key.type is not ConfigType.LIST:
        what = f"Can't {operation.name} to key {edit.name} because its type is not LIST."
        return ConfigFault(
            ErrorCode.INVALID_CONFIG, what if key is not None else in_force.definition.refusal_of(edit.name)
        )
    items = _items(render_value(in_force[edit.name]) if text is None else text)
    named = _items(edit.value)
    if operation is ConfigOperation.APPEND:
        items += [item for item in dict.fromkeys(named) if item not in items]
    else:
        items = [item for item in items if item not in named]
    return ",".join(items)


def _items(text: str | None) -> list[str]:
    items = parse_value(ConfigType.LIST, text or "")
    assert isinstance(items, tuple)
    return [item for item in items if item]
