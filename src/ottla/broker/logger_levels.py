"""The levels of the process's loggers, which an administrator may change while the broker runs; kept nowhere.

Names and levels as Kafka has them: FATAL is Python's CRITICAL, TRACE shows everything, `root` is above all others.
"""

import logging
from collections.abc import Mapping, Sequence

from ottla.controller.config_edits import ConfigEdit, ConfigFault, ConfigOperation
from ottla.core.errors import ErrorCode

ROOT = "root"
TRACE = 5
_LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}
_PREFIX = "ottla"


def logger_levels() -> dict[str, str]:
    """The effective level of each of our loggers, by name."""
    names = [ROOT, *sorted(name for name in logging.root.manager.loggerDict if _is_ours(name))]
    return {name: _level_name(_logger(name).getEffectiveLevel()) for name in names}


def alter_levels(edits: Sequence[ConfigEdit], *, validate_only: bool = False) -> ConfigFault | None:
    """Set levels, or leave them to the logger above again (DELETE); all of it or nothing."""
    known = logger_levels()
    for edit in edits:
        fault = _fault_in(edit, known)
        if fault is not None:
            return fault
    if not validate_only:
        for edit in edits:
            is_removal = edit.operation == ConfigOperation.DELETE
            _logger(edit.name).setLevel(logging.NOTSET if is_removal else _LEVELS[edit.value or ""])
    return None


def _fault_in(edit: ConfigEdit, known: Mapping[str, str]) -> ConfigFault | None:
    if edit.name not in known:
        return ConfigFault(ErrorCode.INVALID_CONFIG, f"there is no logger {edit.name}")
    if edit.operation == ConfigOperation.DELETE:
        if edit.name == ROOT:
            return ConfigFault(ErrorCode.INVALID_REQUEST, "the root logger must have a level; set another one")
        return None
    if edit.operation != ConfigOperation.SET:
        return ConfigFault(ErrorCode.INVALID_REQUEST, f"logger {edit.name}: a level can be set or deleted only")
    if edit.value not in _LEVELS:
        return ConfigFault(
            ErrorCode.INVALID_CONFIG, f"logger {edit.name}: no level {edit.value}; expected one of {', '.join(_LEVELS)}"
        )
    return None


def _is_ours(name: str) -> bool:
    return name == _PREFIX or name.startswith(f"{_PREFIX}.")


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def _level_name(level: int) -> str:
    return next((name for name, number in _LEVELS.items() if number <= level), "TRACE")
