"""Bugs of controllers, of the brokers that they control, and of coordinators of groups."""

from typing import Any

import pytest

from ottla.broker.control_fence import ControlFence
from ottla.broker.local_replicas import LocalReplicas
from ottla.broker.registration import Registration
from ottla.controller import broker_changes, partition_decisions
from ottla.controller.broker_changes import BrokerChanges
from ottla.controller.fenced_store import FencedStore
from ottla.controller.leader_selectors import Selection, select_offline
from ottla.controller.live_brokers import Brokers
from ottla.controller.partition_elections import PartitionElections
from ottla.controller.take_over import TakeOver
from ottla.coordination.store import ANY_VERSION, Check, SetValue
from ottla.coordinator.runtime.context import CoordinatorContext
from ottla.core.control import ControlStamp
from ottla.core.errors import ErrorCode


def controller_does_not_check_its_epoch(patch: pytest.MonkeyPatch) -> None:
    """A controller that was deposed goes on to elect."""
    multi = FencedStore.multi

    def multi_without_check(self: FencedStore, writes: Any, on_done: Any) -> None:
        self._check = Check("/", ANY_VERSION)
        multi(self, writes, on_done)

    patch.setattr(FencedStore, "multi", multi_without_check)


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

    def select_any(replicas: Any, isr: Any, *, online: Any, is_unclean_allowed: bool) -> Selection | None:
        return select_offline(replicas, replicas, online=online, is_unclean_allowed=True)

    patch.setattr(partition_decisions, "select_offline", select_any)


def election_keeps_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """Two leaders of one leader epoch: nobody can tell their records apart."""
    patch.setattr(
        partition_decisions,
        "_elected",
        lambda state, selection: state._replace(leader=selection.leader, isr=selection.isr),
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


def earlier_lives_of_a_broker_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    """What was meant for a broker before it started anew makes it lead with what it has now."""

    def check(self: ControlFence, stamp: ControlStamp) -> ErrorCode:
        if stamp.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_id = stamp.controller_id
        self.controller_epoch = stamp.controller_epoch
        return ErrorCode.NONE

    patch.setattr(ControlFence, "check", check)


def shutdown_leaves_the_broker_in_the_isr(patch: pytest.MonkeyPatch) -> None:
    """A broker that stops stays in sync: nothing is acknowledged until its session ends."""

    def select(replicas: Any, isr: Any, *, online: Any, shutting_down: Any) -> Selection | None:
        able = [one for one in replicas if one in isr and one in online and one not in shutting_down]
        return Selection(able[0], tuple(isr)) if able else None

    patch.setattr(partition_decisions, "select_controlled_shutdown", select)
    go_on = partition_decisions._go_on

    def go_on_with_all(state: Any, online: Any, strategy: Any) -> Any:
        return go_on(state, list(state.replicas), strategy)

    patch.setattr(partition_decisions, "_go_on", go_on_with_all)


def lost_session_is_not_registered_anew(patch: pytest.MonkeyPatch) -> None:
    """A broker whose session ended serves on, and nobody knows of it."""
    patch.setattr(Registration, "_register_again", lambda _: None)


def broker_that_comes_gets_no_picture(patch: pytest.MonkeyPatch) -> None:
    """A broker that registers anew is not told what it leads and follows."""

    def come(self: BrokerChanges, came: Any) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(self._broadcast, "send_picture", lambda _: None)
            original(self, came)

    original = BrokerChanges._come
    patch.setattr(BrokerChanges, "_come", come)


def older_leader_epoch_is_taken(patch: pytest.MonkeyPatch) -> None:
    """A state that comes late makes a broker lead in an epoch that is over."""
    from ottla.replication.replicas import Replicas

    def apply_state(self: Replicas, topic_partition: Any, state: Any) -> ErrorCode:
        self.update_state(topic_partition, state)
        return ErrorCode.NONE

    patch.setattr(LocalReplicas, "_why_not", lambda *_: ErrorCode.NONE)
    patch.setattr(Replicas, "apply_state", apply_state)


def coordinator_answers_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """A group's offset is acknowledged when the coordinator has appended it, and lost when another one takes over."""

    def answer(self: CoordinatorContext[Any], outcome: Any, _: int) -> None:
        self._settle(outcome)

    patch.setattr(CoordinatorContext, "_await_commit", answer)
