"""The creation of a topic: checked as a whole, placed on brokers, and written with all its nodes or not at all."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.controller.deltas import TopicCreated
from ottla.controller.events import Decision, Inputs, Proof
from ottla.controller.placement import (
    PARTITIONS_MAX,
    Assignment,
    check_new_assignment,
    check_replication_factor,
    first_states,
    impossible_count,
    place,
)
from ottla.controller.state import ClusterState
from ottla.controller.topic_faults import TopicFault, fault_of_store, topic_exists
from ottla.controller.topic_names import colliding, problem_with, topic_key
from ottla.controller.topic_nodes import creation_of, new_node
from ottla.coordination import paths
from ottla.coordination.node_json import encode_uuid
from ottla.coordination.store import Result
from ottla.core.cluster import TopicImage
from ottla.core.config.config import TopicConfig
from ottla.core.config.definition import ConfigError
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId

BY_DEFAULT = -1


class NewTopic(NamedTuple):
    """A topic to be created; -1 leaves a count to the broker's config. An event of the controller."""

    name: str
    partitions: int = BY_DEFAULT
    replication_factor: int = BY_DEFAULT
    assignment: Mapping[int, tuple[BrokerId, ...]] | None = None
    configs: Mapping[str, str | None] = {}

    @property
    def key(self) -> str:
        return topic_key(self.name)

    def decide(self, state: ClusterState, inputs: Inputs, node: Result | None) -> Decision | TopicFault:
        image = _image_of(self, state, inputs)
        if isinstance(image, TopicFault):
            return image
        value = new_node(image)
        writes = creation_of(image, value, controller_epoch=inputs.controller_epoch)
        # The id is random, so a node that says the same was written by nobody else.
        return Decision(TopicCreated(image), writes, Proof(paths.topic_path(self.name), value))

    def fault_of(self, result: Result) -> TopicFault:
        return fault_of_store(self.name, result)


def _image_of(new: NewTopic, state: ClusterState, inputs: Inputs) -> TopicImage | TopicFault:
    name = new.name
    problem = problem_with(name)
    if problem is not None:
        return TopicFault(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name in state.topics:
        return topic_exists(name)
    other = state.collision_with(name)
    if other is not None:
        return TopicFault(ErrorCode.INVALID_TOPIC_EXCEPTION, colliding(name, other))
    configs = _given_configs(new.configs)
    if isinstance(configs, TopicFault):
        return configs
    try:
        if configs:
            TopicConfig.parse(configs, inputs.config)
    except ConfigError as error:
        return TopicFault(ErrorCode.INVALID_CONFIG, "; ".join(error.problems))
    assignment = _assign(new, inputs)
    if isinstance(assignment, TopicFault):
        return assignment
    partitions = first_states(assignment, led_at_once_max=inputs.led_at_once_max)
    return TopicImage(name, _new_topic_id(inputs.random_bytes), configs, partitions)


def _given_configs(configs: Mapping[str, str | None]) -> dict[str, str] | TopicFault:
    missing = [name for name, value in configs.items() if value is None]
    if missing:
        return TopicFault(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(missing)}")
    return {name: value for name, value in configs.items() if value is not None}


def _assign(new: NewTopic, inputs: Inputs) -> Assignment | TopicFault:
    live = inputs.live_brokers
    if new.assignment is not None:
        for what, count in (("replication factor", new.replication_factor), ("numPartitions", new.partitions)):
            if count != BY_DEFAULT:
                return TopicFault(
                    ErrorCode.INVALID_REQUEST,
                    f"A manual partition assignment was specified, but {what} was not set to -1.",
                )
        assignment = dict(sorted(new.assignment.items()))
        return check_new_assignment(assignment, live) or assignment
    partitions = new.partitions
    if partitions == BY_DEFAULT:
        partitions = inputs.config.get_int("num.partitions")
    replication_factor = new.replication_factor
    if replication_factor == BY_DEFAULT:
        replication_factor = inputs.config.get_int("default.replication.factor")
    if not 0 < partitions <= PARTITIONS_MAX:
        return impossible_count(partitions)
    fault = check_replication_factor(replication_factor, live)
    if fault is not None:
        return fault
    first, shift = inputs.random_bytes(2)
    return place(
        live,
        partitions=partitions,
        replication_factor=replication_factor,
        first_broker=first % len(live),
        first_shift=shift % len(live),
    )


def _new_topic_id(random_bytes: Callable[[int], bytes]) -> bytes:
    # A text form that starts with '-' would look like an option on a command line; Kafka avoids it too.
    while True:
        raw = bytearray(random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40  # a version 4 UUID
        raw[8] = raw[8] & 0x3F | 0x80
        if not encode_uuid(bytes(raw)).startswith("-"):
            return bytes(raw)
