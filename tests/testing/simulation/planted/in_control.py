"""Bugs of controllers, of the brokers that they control, and of coordinators of groups."""

from typing import Any

import pytest

from ottla.broker.control_fence import ControlFence
from ottla.broker.registration import Registration
from ottla.controller import broker_changes, partition_decisions
from ottla.controller.leader_selectors import Selection, select_offline
from ottla.controller.live_brokers import Brokers
from ottla.controller.partition_elections import PartitionElections
from ottla.controller.take_over import TakeOver
from ottla.coordination.store import ANY_VERSION, SetValue
from ottla.coordinator.runtime.context import CoordinatorContext
from ottla.core.control import ControlStamp
from ottla.core.errors import ErrorCode


def controller_elects_without_a_version(patch: pytest.MonkeyPatch) -> None:
    """An election is written over in-sync replicas that the controller has not read."""
    add_writes = PartitionElections._add_writes

    def add_without_version(self: PartitionElections, batch: Any, *arguments: Any) -> None:
        add_writes(self, batch, *arguments)
        write = batch.writes[-1]
        if isinstance(write, SetValue):
            batch.writes[-1] = write._replace(version=ANY_VERSION)

    patch.setattr(PartitionElections, "_add_writes", add_without_version)


def leader_is_elected_outside_of_the_isr(patch: pytest.MonkeyPatch) -> None:
    """Any replica that is online leads, whatever it has."""

    def select_any(replicas: Any, isr: Any, *, online: Any, **_: Any) -> Selection | None:
        return select_offline(replicas, replicas, online=online, is_unclean_allowed=True)

    patch.setattr(partition_decisions, "select_offline", select_any)


def election_keeps_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """Two leaders of one leader epoch: nobody can tell their records apart."""
    patch.setattr(
        partition_decisions,
        "_elected",
        lambda state, selection, _: state._replace(leader=selection.leader, isr=selection.isr),
    )


def reborn_leader_keeps_its_epoch(patch: pytest.MonkeyPatch) -> None:
    """A leader that lost the end of its log goes on in the same epoch: its followers keep what it lost."""

    def with_reborn(self: TakeOver, brokers: Brokers) -> Brokers:
        return brokers

    patch.setattr(TakeOver, "_without_reborn", with_reborn)
    patch.setattr(broker_changes, "_is_same", lambda broker, other: other is not None)


def older_controllers_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    """What a deposed controller sends late replaces what its successor said."""

    def check(self: ControlFence, stamp: ControlStamp) -> ErrorCode:
        if stamp.broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        self.controller_id = stamp.controller_id
        self.controller_epoch = stamp.controller_epoch
        return ErrorCode.NONE

    patch.setattr(ControlFence, "check", check)


def lost_session_is_not_registered_anew(patch: pytest.MonkeyPatch) -> None:
    """A broker whose session ended serves on, and nobody knows of it."""
    patch.setattr(Registration, "_register_again", lambda _: None)


def coordinator_answers_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """A group's offset is acknowledged when the coordinator has appended it, and lost when another one takes over."""

    def answer(self: CoordinatorContext[Any], outcome: Any, _: int) -> None:
        self._settle(outcome)

    patch.setattr(CoordinatorContext, "_await_commit", answer)
