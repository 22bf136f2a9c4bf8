"""The controller's queue: each event is decided on what the events before it left, written, applied, and answered.

It owns the `ClusterState`. An event that was decided waits for its writes. Until they are back, events with the same
key wait behind it, so that no decision is made on what may not come true. Events with other keys go on meanwhile: their
decisions do not touch each other, and the store commits many of them at once.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from ottla.controller.deltas import Applier, BrokerConfigsChanged, Delta
from ottla.controller.events import Decision, Event, Inputs, NodeWanted
from ottla.controller.placement import PARTITIONS_MAX
from ottla.controller.state import ClusterState
from ottla.controller.topic_faults import NO_CONTROLLER
from ottla.coordination.store import Code, OnDone, Result, Write
from ottla.core.config.current import CurrentConfig
from ottla.core.types import BrokerId

FaultT = TypeVar("FaultT")

# Another broker must have written the node each time that a try is lost, so this many are never needed.
_TRIES_MAX = 10
_OVERTAKEN = (Code.BAD_VERSION, Code.NODE_EXISTS)
_PERHAPS_WRITTEN = (Code.CONNECTION_LOST, Code.NODE_EXISTS)


class Done(NamedTuple):
    """The event was decided as `delta` says; `written` is the store's answer, if something had to be written."""

    delta: Delta
    written: Result | None


class EventStore(Protocol):
    """What is needed of a store: a broker's own, or a fenced one."""

    def get(self, path: str, on_done: OnDone) -> None: ...

    def multi(self, writes: Sequence[Write], on_done: OnDone) -> None: ...


class EventQueue:
    """One per controller; event loop only."""

    def __init__(
        self,
        store: EventStore,
        state: ClusterState,
        applier: Applier,
        current: CurrentConfig,
        *,
        random_bytes: Callable[[int], bytes],
        live_brokers: Callable[[], list[BrokerId]],
        controller_epoch: Callable[[], int],
        led_at_once_max: int = PARTITIONS_MAX,
    ) -> None:
        self._store = store
        self.state = state
        self._applier = applier
        self.current = current
        self._random_bytes = random_bytes
        self._live_brokers = live_brokers
        self._controller_epoch = controller_epoch
        self._led_at_once_max = led_at_once_max
        self._lines: dict[str, deque[_Task]] = {}  # by key; the first of a line is being worked on
        self._is_closed = False

    def close(self) -> None:
        """This broker does not control any more: whoever waits or comes is refused. The store must not answer later."""
        self._is_closed = True
        lines, self._lines = self._lines, {}
        with ExitStack() as refusals:
            for line in lines.values():
                for task in line:
                    refusals.callback(task.refuse, NO_CONTROLLER)

    def submit(
        self, event: Event[FaultT], on_done: Callable[[Done | FaultT], None], *, validate_only: bool = False
    ) -> None:
        """Calls `on_done` when the event is applied or refused, perhaps before this returns."""
        task = _Task(event, on_done, validate_only)
        if self._is_closed:
            task.refuse(NO_CONTROLLER)
            return
        line = self._lines.get(event.key)
        if line is not None:
            line.append(task)
            return
        self._lines[event.key] = deque((task,))
        self._work_off(event.key)

    def _work_off(self, key: str) -> None:
        """Decide the events of a line, until one has to wait for the store."""
        line = self._lines[key]
        while line:
            try:
                is_settled = self._decide(line[0], None)
            except BaseException:  # a bug in an event, or in who waits for it, stops nobody else
                self._end(line[0])
                raise
            if not is_settled:
                return
            if self._is_closed:
                return
            line.popleft()
        del self._lines[key]

    def _decide_again(self, task: "_Task", node: Result | None) -> None:
        """A task that waited for the store goes on; if it is settled, the next of its line has its turn."""
        is_settled = True  # by an exception as well
        try:
            is_settled = self._decide(task, node)
        finally:
            if is_settled:
                self._end(task)

    def _decide(self, task: "_Task", node: Result | None) -> bool:
        """Whether the task is settled; if not, the store was asked for something."""
        event = task.event
        inputs = Inputs(
            self.current.value,
            self._live_brokers(),
            self._controller_epoch(),
            self._random_bytes,
            self._led_at_once_max,
        )
        decided = event.decide(self.state, inputs, node)
        if isinstance(decided, NodeWanted):
            self._store.get(decided.path, partial(self._on_node, task))
            return False
        if not isinstance(decided, Decision):
            task.on_done(decided)
            return True
        if task.validate_only:
            task.on_done(Done(decided.delta, None))
            return True
        if not decided.writes:
            self._apply(task, decided.delta, None)
            return True
        self._store.multi(decided.writes, partial(self._on_written, task, decided, node is not None))
        return False

    def _on_node(self, task: "_Task", result: Result) -> None:
        if not result.is_ok and result.code != Code.NO_NODE:
            self._refuse(task, result)
        else:
            self._decide_again(task, result)

    def _on_written(self, task: "_Task", decision: Decision, was_read: bool, result: Result) -> None:
        if result.is_ok:
            self._commit(task, decision, result)
        elif was_read and result.code in _OVERTAKEN and task.tries_left > 1:
            task.tries_left -= 1
            self._decide_again(task, None)
        elif decision.proof is not None and result.code in _PERHAPS_WRITTEN:
            self._store.get(decision.proof.path, partial(self._on_proof, task, decision, was_read, result))
        else:
            self._refuse(task, result)

    def _on_proof(self, task: "_Task", decision: Decision, was_read: bool, written: Result, found: Result) -> None:
        assert decision.proof is not None
        expected = decision.proof.value
        is_there = found.code == Code.NO_NODE if expected is None else found.is_ok and found.value == expected
        if is_there:
            self._commit(task, decision, written)
        elif was_read and (found.is_ok or found.code == Code.NO_NODE) and task.tries_left > 1:
            task.tries_left -= (
                1  # nothing was written, and nobody else may ask for it again: a deletion would stop here
            )
            self._decide_again(task, None)
        else:
            self._refuse(task, written)

    def _commit(self, task: "_Task", decision: Decision, written: Result) -> None:
        try:
            self._apply(task, decision.delta, written)
        finally:  # a bug in the applier or in a callback must not stop the line
            self._end(task)

    def _refuse(self, task: "_Task", result: Result) -> None:
        try:
            task.refuse(result)
        finally:
            self._end(task)

    def _end(self, task: "_Task") -> None:
        """A task that waited for the store is settled: decide the next of its line on what it left."""
        key = task.event.key
        line = self._lines.get(key)
        if line is not None:  # else the queue was closed inside a callback
            line.popleft()
            self._work_off(key)

    def _apply(self, task: "_Task", delta: Delta, written: Result | None) -> None:
        self.state.apply(delta)
        on_applied = partial(task.on_done, Done(delta, written))
        if isinstance(delta, BrokerConfigsChanged):
            changed, _ = self.current.value.with_dynamic(per_broker=delta.per_broker, cluster_wide=delta.cluster_wide)
            self.current.replace(changed)
            on_applied()
        else:
            self._applier.apply(delta, on_applied)


class _Task:
    """An event and the callback that waits for it."""

    __slots__ = ("event", "on_done", "tries_left", "validate_only")

    def __init__(self, event: Event[Any], on_done: Callable[[Any], None], validate_only: bool) -> None:
        self.event = event
        self.on_done = on_done
        self.validate_only = validate_only
        self.tries_left = _TRIES_MAX

    def refuse(self, result: Result) -> None:
        self.on_done(self.event.fault_of(result))
