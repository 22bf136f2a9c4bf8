"""A member of a consumer group: joins, sends heartbeats, rejoins when the group is rebalanced.

Runs in the client loop, independent of `poll`. A `RebalanceEvent` waits until the user's side takes it and calls the
listener: partitions are revoked only after the listener returned. `commits.py` does the commits.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.clients.consumer.coordinator import Coordinator
from ottla.clients.consumer.errors import CommitFailed, FencedInstanceId, RebalanceInProgress, error_of
from ottla.clients.consumer.group_requests import (
    GroupSettings,
    LastAssignment,
    join_request,
    leave_request,
    sync_request,
)
from ottla.clients.consumer.heartbeats import Heartbeats
from ottla.clients.consumer.leading import Leading
from ottla.clients.consumer.rebalance import EventKind, Phase, RebalanceEvent
from ottla.clients.consumer.subscription import Kind, Subscription
from ottla.clients.consumer.values import GroupMetadata
from ottla.clients.consumer_protocol import decode_assignment
from ottla.clients.error_rules import RETRIABLE, STALE_COORDINATOR
from ottla.clients.errors import ClientError, ConnectionFailed
from ottla.clients.network.metadata import Metadata
from ottla.clients.network.port import Network
from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.core.types import TopicPartition
from ottla.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.sync_group import SyncGroupResponse

logger: Final = logging.getLogger("ottla.clients")

NO_GENERATION: Final = -1
_JOIN_SLACK_MS: Final = 5_000  # added to the time that the coordinator waits for other members

# This member is out of the group: its partitions may belong to another already.
_FORGOTTEN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class Group:
    """Owned by the consumer's core. `on_attention`: an event waits. `on_error`: an error to raise to the user."""

    def __init__(
        self,
        network: Network,
        metadata: Metadata,
        coordinator: Coordinator,
        subscription: Subscription,
        settings: GroupSettings,
        *,
        on_attention: Callable[[], None],
        on_error: Callable[[ClientError], None],
        on_topics: Callable[[], None],
        poll_idle_ms: Callable[[], int],
    ) -> None:
        self.phase = Phase.OUT
        self.member_id = ""
        self.generation_id = NO_GENERATION
        self.is_leader = False
        self.events: deque[RebalanceEvent] = deque()
        self.is_wanted = False  # whether the user polls: only a consumer that polls may be a member
        self._network = network
        self._coordinator = coordinator
        self._subscription = subscription
        self._settings = settings
        self._on_attention = on_attention
        self._on_error = on_error
        self._leading = Leading(network, metadata, on_topics=on_topics)
        self._protocol_name = ""
        self._last = LastAssignment()
        self._assigned: tuple[TopicPartition, ...] = ()
        self._fenced: FencedInstanceId | None = None
        self._is_lost = False
        self._is_prepared = False  # the listener has run for all revoked partitions
        self._must_rejoin = False  # once this rebalance is over
        self._is_waiting = False  # for the coordinator, or for the next attempt
        self._join_reason = ""
        self._failures = 0  # failed joins since the last success
        self._round = 0  # the number of the current join
        self._heartbeats = Heartbeats(
            network,
            coordinator,
            settings,
            identity=self._identity_to_show,
            poll_idle_ms=poll_idle_ms,
            on_answer=self._heartbeat_answered,
            on_overdue=self._poll_overdue,
        )

    # What the member is.

    @property
    def group_topics(self) -> frozenset[str]:
        """The topics of all members, while this one leads."""
        return self._leading.topics

    @property
    def identity(self) -> GroupMetadata:
        settings = self._settings
        return GroupMetadata(settings.group_id, self.generation_id, self.member_id, settings.instance_id)

    def _identity_to_show(self) -> GroupMetadata | None:
        """The membership for a heartbeat; None while there is none to keep alive."""
        if self.generation_id == NO_GENERATION or self.phase in (Phase.OUT, Phase.JOINING):
            return None
        return self.identity

    def refusal_to_commit(self) -> ClientError | None:
        if not self._subscription.is_of_group or self.generation_id != NO_GENERATION:
            return None
        what = f"group {self._settings.group_id}: committing offsets"
        if self.phase in (Phase.JOINING, Phase.SYNCING):
            return RebalanceInProgress(ErrorCode.REBALANCE_IN_PROGRESS, what, "poll until partitions are assigned")
        reason = (
            "this consumer is not a member of the group now; it was removed if max.poll.interval.ms="
            f"{self._settings.max_poll_interval_ms} passed between two polls: process less at a time, or raise that"
        )
        return CommitFailed(ErrorCode.UNKNOWN_MEMBER_ID, what, reason)

    def on_commit_error(self, error_code: int, identity: GroupMetadata) -> None:
        if error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin("a commit was answered with REBALANCE_IN_PROGRESS")
        elif error_code == ErrorCode.FENCED_INSTANCE_ID:
            self._fenced = FencedInstanceId(error_code, f"group {self._settings.group_id}: committing offsets")
        elif error_code in _FORGOTTEN and identity == self.identity:
            self._forget(error_code)

    # For the user's side.

    def subscribed(self) -> None:
        """The subscription has changed."""
        if self.phase is Phase.OUT:
            self.phase = Phase.UNJOINED
        else:
            self.rejoin("the subscription changed")

    def advance(self) -> None:
        """Do the next step if possible; called by `poll` and after every answer."""
        if self.phase is not Phase.UNJOINED or not self.is_wanted or self._is_waiting:
            return
        if self._fenced is not None:
            self._fail(self._fenced)
            return
        if not self._is_prepared and not self._prepare():
            return
        self._is_waiting = True
        self._coordinator.find(self._coordinator_known)

    def take_event(self) -> RebalanceEvent | None:
        """For the user's side: call the listener, then `finish`."""
        if not self.events:
            return None
        event = self.events.popleft()
        if event.kind is EventKind.ASSIGNED:
            for state in self._subscription.take(self._assigned):
                state.is_held = True  # until the listener had the chance to seek
        return event

    def finish(self, event: RebalanceEvent) -> None:
        """The listener has run."""
        if event.kind is not EventKind.ASSIGNED:
            self._subscription.drop(event.topic_partitions)
            if self.phase is Phase.REVOKING:
                self.events.clear()  # partitions that were lost while the listener revoked them need no second event
                self.phase = Phase.UNJOINED
                self._is_prepared = not self._is_lost or event.kind is EventKind.LOST
                self._is_lost = False
        else:
            for state in self._subscription.states.values():
                state.is_held = False
            if self.phase is Phase.ASSIGNING:
                self._settled()
        self.advance()

    def rejoin(self, reason: str) -> None:
        """Join again, as soon as the current rebalance is over."""
        if self.phase is Phase.STABLE:
            self._join_reason = reason
            self.phase = Phase.UNJOINED
            self._is_prepared = False
            self.advance()
        elif self.phase in (Phase.JOINING, Phase.SYNCING, Phase.ASSIGNING):
            self._join_reason = reason
            self._must_rejoin = True

    def leave(self, reason: str, on_left: Callable[[], None] | None = None) -> None:
        """Leave the group, so that others get the partitions at once. A static member stays: it may come back."""
        identity = self.identity
        is_told = bool(identity.member_id) and identity.instance_id is None and self._coordinator.broker_id is not None
        is_held_up = self.phase in (Phase.JOINING, Phase.SYNCING)  # until the others have joined too
        self.phase = Phase.OUT
        self.events.clear()
        self._reset(keep_member_id=False)
        self._is_lost = False
        self._heartbeats.stop()
        if is_told:
            self._coordinator.ask(
                leave_request(identity, reason), lambda _: on_left() if on_left else None, is_beside=is_held_up
            )
        elif on_left is not None:
            self._network.call_soon(on_left)

    def metadata_changed(self) -> None:
        """New partitions get an owner only in a rebalance, which the leader must start."""
        self._leading.metadata_changed()
        if self.is_leader and self.phase is Phase.STABLE and self._leading.is_outdated:
            self.rejoin("the topics or their partitions changed")

    # Revoking partitions before a join.

    def _prepare(self) -> bool:
        """Whether no partition has to be revoked first."""
        owned = self._subscription.states
        kind = EventKind.LOST if self._is_lost else EventKind.REVOKED
        if self._is_lost or not self._settings.strategies.is_cooperative:
            topic_partitions = tuple(owned)
        else:
            topic_partitions = tuple(
                topic_partition for topic_partition in owned if topic_partition.topic not in self._subscription.topics
            )
        self._is_prepared = not topic_partitions
        if topic_partitions:
            self.phase = Phase.REVOKING
            self.events.append(RebalanceEvent(kind, topic_partitions))
            self._on_attention()
        else:
            self._is_lost = False
        return self._is_prepared

    # Joining.

    def _coordinator_known(self, failure: ClientError | None) -> None:
        self._is_waiting = False
        if failure is not None:
            self._fail(failure)
        elif self.phase is Phase.UNJOINED and self._is_prepared and self.is_wanted:
            self._join()

    def _join(self) -> None:
        self.phase = Phase.JOINING
        settings = self._settings
        request = join_request(
            settings,
            member_id=self.member_id,
            topics=self._subscription.topics,
            owned=self._subscription.topic_partitions,
            last=self._last,
            reason=self._join_reason,
        )
        timeout_ms = max(settings.request_timeout_ms, settings.max_poll_interval_ms + _JOIN_SLACK_MS)
        self._round += 1
        self._coordinator.ask(request, self._if_current(self._joined), timeout_ms=timeout_ms)

    def _if_current(self, take: Callable[[Any], None]) -> Callable[[Any], None]:
        """Ignore answers to a join that was abandoned meanwhile."""
        round_ = self._round

        def answered(answer: Any) -> None:
            if round_ == self._round:
                take(answer)

        return answered

    def _joined(self, answer: JoinGroupResponse | ClientError) -> None:
        if self.phase is not Phase.JOINING:
            return
        if isinstance(answer, ClientError):
            self._broken(answer)
        elif answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394: the coordinator first gives out an id
            self.member_id = answer.member_id
            self._join()
        elif answer.error_code != ErrorCode.NONE:
            self._refused(answer.error_code, "joining")
        else:
            self._failures = 0
            self.member_id = answer.member_id
            self.generation_id = answer.generation_id
            self._protocol_name = answer.protocol_name or ""
            self.is_leader = answer.leader == answer.member_id
            self.phase = Phase.SYNCING
            self._heartbeats.start()
            if self.is_leader:
                self._lead(answer.members, skips=answer.skip_assignment)
            else:
                self._leading.stop()
                self._sync({})

    def _lead(self, members: Sequence[JoinGroupResponseMember], *, skips: bool) -> None:
        generation_id = self.generation_id

        def assigned(assignments: dict[str, list[TopicPartition]]) -> None:
            if self.phase is Phase.SYNCING and self.generation_id == generation_id:
                self._sync({} if skips else assignments)

        try:
            self._leading.lead(self._protocol_name, members, assigned)
        except ProtocolViolation as violation:
            self._invalid_answer(violation, "reading what the other members subscribed to")

    def _sync(self, assignments: dict[str, list[TopicPartition]]) -> None:
        settings = self._settings
        timeout_ms = max(settings.request_timeout_ms, settings.max_poll_interval_ms + _JOIN_SLACK_MS)
        request = sync_request(self.identity, self._protocol_name, assignments)
        self._coordinator.ask(request, self._if_current(self._synced), timeout_ms=timeout_ms)

    def _synced(self, answer: SyncGroupResponse | ClientError) -> None:
        if self.phase is not Phase.SYNCING:
            return
        if isinstance(answer, ClientError):
            self._broken(answer)
            return
        if answer.error_code != ErrorCode.NONE:
            self._refused(answer.error_code, "waiting for an assignment")
            return
        try:
            assigned = tuple(decode_assignment(answer.assignment))
        except ProtocolViolation as violation:
            self._invalid_answer(violation, "reading the assignment")
            return
        subscription = self._subscription
        if subscription.kind is not Kind.PATTERN and any(
            topic_partition.topic not in subscription.topics for topic_partition in assigned
        ):
            self._must_rejoin = True  # the assignment is for an older subscription
        owned = subscription.states
        revoked = tuple(topic_partition for topic_partition in owned if topic_partition not in assigned)
        self._assigned = assigned
        self._last = LastAssignment(assigned, self.generation_id)
        self.phase = Phase.ASSIGNING
        if revoked:
            self.events.append(RebalanceEvent(EventKind.REVOKED, revoked))
            self._must_rejoin = True  # so that their new owners get them (KIP-429)
        added = tuple(topic_partition for topic_partition in assigned if topic_partition not in owned)
        self.events.append(RebalanceEvent(EventKind.ASSIGNED, added))
        self._on_attention()

    def _settled(self) -> None:
        self.phase = Phase.STABLE
        self._is_prepared = False
        if self._must_rejoin:
            self._must_rejoin = False
            self.rejoin(self._join_reason or "partitions were given up")
        else:
            self._join_reason = ""
            self.metadata_changed()

    # Errors.

    def _refused(self, error_code: int, what: str) -> None:
        if error_code in STALE_COORDINATOR:
            self._coordinator.lost()
            self._again_later()
        elif error_code in RETRIABLE:
            self._again_later()
        elif error_code in _FORGOTTEN:
            self._forget(error_code)
        elif error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.phase = Phase.UNJOINED
            self.advance()
        else:
            self._fail(error_of(error_code, f"group {self._settings.group_id}: {what}"))

    def _broken(self, failure: ClientError) -> None:
        if isinstance(failure, ConnectionFailed):
            self._again_later()
        else:
            self._fail(failure)

    def _invalid_answer(self, violation: ProtocolViolation, what: str) -> None:
        what = f"group {self._settings.group_id}: {what}"
        self._fail(error_of(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, what, str(violation)))

    def _again_later(self) -> None:
        self.phase = Phase.UNJOINED
        self._is_waiting = True

        def again() -> None:
            self._is_waiting = False
            self.advance()

        self._network.call_later(self._settings.backoff.delay_ms(self._failures), again)
        self._failures += 1

    def _fail(self, failure: ClientError) -> None:
        """Report an error to the user; the next poll tries again."""
        self.is_wanted = False
        if isinstance(failure, FencedInstanceId):
            self._fenced = failure  # joining again would fence the other member
        if self.phase is not Phase.OUT:
            self.phase = Phase.UNJOINED
        self._on_error(failure)

    def _forget(self, error_code: int) -> None:
        """This member is out of the group."""
        self._reset(keep_member_id=error_code != ErrorCode.UNKNOWN_MEMBER_ID)
        self._join_reason = "this member is out of the group"
        if self.phase is Phase.OUT:
            return
        self.events.clear()
        self.phase = Phase.UNJOINED
        self.advance()

    def _reset(self, *, keep_member_id: bool) -> None:
        self._round += 1
        self.generation_id = NO_GENERATION
        self.is_leader = False
        self._is_prepared = False
        self._must_rejoin = False
        self._leading.stop()
        self._is_lost = bool(self._subscription.states)
        if not keep_member_id:
            self.member_id = ""

    def _heartbeat_answered(self, error_code: int) -> None:
        """Handle the answer to a heartbeat."""
        if error_code in STALE_COORDINATOR:
            self._coordinator.lost()
        elif error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin("the group is being rebalanced")
        elif error_code in _FORGOTTEN:
            self._forget(error_code)
        elif error_code != ErrorCode.NONE and error_code not in RETRIABLE:
            self._reset(keep_member_id=False)
            self.events.clear()
            self._fail(error_of(error_code, f"group {self._settings.group_id}: heartbeat"))

    def _poll_overdue(self, idle_ms: int) -> None:
        """A member that doesn't poll doesn't read: it leaves its partitions to others."""
        limit_ms = self._settings.max_poll_interval_ms
        logger.warning(
            "group %s: no poll for %d ms, max.poll.interval.ms is %d: leaving the group until the next poll",
            self._settings.group_id,
            idle_ms,
            limit_ms,
        )
        self.leave(f"no poll for {idle_ms} ms, max.poll.interval.ms is {limit_ms}")
        self._is_lost = bool(self._subscription.states)
        self._join_reason = "back after max.poll.interval.ms"
        self.is_wanted = False
        self.phase = Phase.UNJOINED
