"""What AlterConfigs and IncrementalAlterConfigs share: many resources in one request, each with its outcome."""

from collections import Counter
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import partial
from typing import NamedTuple, TypeVar

from ottla.broker.logger_levels import alter_levels
from ottla.controller.config_edits import ConfigChange, ConfigFault
from ottla.controller.configs import Configs
from ottla.core.errors import ErrorCode


class ResourceType(IntEnum):
    """Whose configs, with the codes of the protocol."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Resource(NamedTuple):
    resource_type: int
    name: str


ResultT = TypeVar("ResultT")

OnAltered = Callable[[list[ConfigFault | None]], None]


class ConfigAlterations:
    """Carries out a whole request: the controller changes configs, the process its loggers. Event loop only."""

    def __init__(self, configs: Configs, *, broker_id: int) -> None:
        self._configs = configs
        self._broker_id = broker_id

    def alter(
        self, changes: Sequence[tuple[Resource, ConfigChange]], on_done: OnAltered, *, validate_only: bool
    ) -> None:
        """`on_done` gets one outcome for each change, in their order; perhaps before this returns."""
        outcomes: list[ConfigFault | None] = [None] * len(changes)
        times = Counter(resource for resource, _ in changes)
        left = len(changes) + 1  # one more, so that nothing is over before everything has begun

        def on_altered(position: int, fault: ConfigFault | None) -> None:
            nonlocal left
            outcomes[position] = fault
            finish_one()

        def finish_one() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                on_done(outcomes)

        for position, (resource, change) in enumerate(changes):
            on_one = partial(on_altered, position)
            if times[resource] > 1:
                on_one(ConfigFault(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."))
            else:
                self._alter_one(resource, change, on_one, validate_only=validate_only)
        finish_one()

    def _alter_one(
        self,
        resource: Resource,
        change: ConfigChange,
        on_done: Callable[[ConfigFault | None], None],
        *,
        validate_only: bool,
    ) -> None:
        resource_type, name = resource
        if resource_type == ResourceType.TOPIC:
            self._configs.alter_topic(name, change, on_done, validate_only=validate_only)
        elif resource_type == ResourceType.BROKER:
            self._configs.alter_broker(name, change, on_done, validate_only=validate_only)
        elif resource_type == ResourceType.BROKER_LOGGER and not change.is_replacement:
            fault = wrong_logger_owner(name, self._broker_id)
            on_done(fault or alter_levels(change.edits, validate_only=validate_only))
        else:
            on_done(unserved_resource(resource_type))


def wrong_logger_owner(name: str, broker_id: int) -> ConfigFault | None:
    """Loggers are a process's own: only that broker can be asked for them."""
    if name == str(broker_id):
        return None
    return ConfigFault(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {broker_id} but received {name}")


def unserved_resource(resource_type: int) -> ConfigFault:
    """The refusal of a resource type that has no configs here."""
    if resource_type in (ResourceType.CLIENT_METRICS, ResourceType.GROUP):
        what = f"known to Kafka, not served by Ottla: configs of {ResourceType(resource_type).name}"
    elif resource_type == ResourceType.BROKER_LOGGER:
        what = "levels of loggers can't be replaced as a whole; change them by IncrementalAlterConfigs"
    else:
        what = f"there are no configs of resource type {resource_type}"
    return ConfigFault(ErrorCode.INVALID_REQUEST, what)


def results_of(
    resources: Sequence[Resource], outcomes: Sequence[ConfigFault | None], result_class: Callable[..., ResultT]
) -> list[ResultT]:
    """The outcomes as the wire has them: both APIs have a result class of their own, with the same fields."""
    return [
        result_class(
            error_code=ErrorCode.NONE if fault is None else fault.error_code,
            error_message=None if fault is None else fault.message,
            resource_type=resource.resource_type,
            resource_name=resource.name,
        )
        for resource, fault in zip(resources, outcomes, strict=True)
    ]
