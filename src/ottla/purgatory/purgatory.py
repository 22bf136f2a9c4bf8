"""Operations that wait: each is completed exactly once, by an event on one of its keys or by the timing wheel.

It owns the watch lists and the marks; what an operation waits for is the business of its subclass. Everything runs on
the event loop's thread, so there are no locks and nothing changes between a check and the act that relies on it.
"""

from collections.abc import Callable, Hashable, Iterable

from ottla.core.timing_wheel import TimerTask, TimingWheel


class DelayedOperation(TimerTask):
    """One request that waits. A subclass says when it is done and what happens then.

    Its life: created, tried, perhaps watched, then completed once (`is_completed`) and never used again. The inherited
    `cancel` stops only its timer: what ends the wait is `force_complete` or `abandon`.
    """

    __slots__ = ("_keys", "_purgatory", "is_completed")

    def __init__(self) -> None:
        super().__init__()
        self.is_completed = False
        self._purgatory: Purgatory | None = None
        self._keys: tuple[Hashable, ...] = ()

    def try_complete(self) -> bool:
        """Look whether the wait is over; if so `return self.force_complete()`, else False."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """What is done at the end, in time or not; called exactly once."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Called after `on_complete` when it was the wheel that ended the wait."""

    def force_complete(self) -> bool:
        """Complete it now, whatever it waits for; False when it already was."""
        if self.is_completed:
            return False
        self.is_completed = True
        if self._purgatory is not None:
            self._purgatory._remove(self)
        self.on_complete()
        return True

    def abandon(self) -> None:
        """Nobody wants the result any more (the peer is gone): stop waiting, with no call of `on_complete`."""
        if self.is_completed:
            return
        self.is_completed = True
        if self._purgatory is not None:
            self._purgatory._remove(self)

    def run(self, now_ms: int) -> None:
        if self.force_complete():
            self.on_expiration()


class Purgatory:
    """The waiting operations of one kind, watched by key.

    Kafka leaves completed operations in the watch lists of their other keys and purges them every 1,000; here the
    lists are dicts, so an operation leaves all of them when it completes and nothing dead is ever kept.
    `on_mark` is called when there is a mark after there was none: the shell then plans one `complete_marked`.
    """

    __slots__ = ("_marks", "_on_mark", "_watchers", "_wheel", "delayed")

    def __init__(self, wheel: TimingWheel, on_mark: Callable[[], object] | None = None) -> None:
        self._wheel = wheel
        self._on_mark = on_mark
        # Dicts as ordered sets: operations complete in the order they came, the same in every run of a simulation.
        self._watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._marks: dict[Hashable, None] = {}
        self.delayed = 0  # operations that wait

    @property
    def watched(self) -> int:
        """Places in the watch lists: an operation with three keys counts three times."""
        return sum(map(len, self._watchers.values()))

    @property
    def has_marks(self) -> bool:
        return bool(self._marks)

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[Hashable], *, timeout_ms: int, now_ms: int
    ) -> bool:
        """Complete the operation if its wait is already over; otherwise watch it by its keys until the timeout.

        Kafka tries again after watching, against events of other threads; on one thread there are none.
        """
        if operation.is_completed or operation.try_complete():
            return True
        self.watch(operation, keys, timeout_ms=timeout_ms, now_ms=now_ms)
        return False

    def watch(self, operation: DelayedOperation, keys: Iterable[Hashable], *, timeout_ms: int, now_ms: int) -> None:
        """Watch an operation that the caller has just seen to be incomplete."""
        assert operation._purgatory is None, "an operation waits in one purgatory only, and once"
        operation._purgatory = self
        operation._keys = keys = tuple(keys)
        watchers = self._watchers
        for key in keys:
            watching = watchers.get(key)
            if watching is None:
                watchers[key] = {operation: None}
            else:
                watching[operation] = None
        self.delayed += 1
        self._wheel.add(operation, delay_ms=timeout_ms, now_ms=now_ms)

    def check_and_complete(self, key: Hashable) -> int:
        """Something happened to `key`: complete what can be completed; says how many operations that were."""
        watching = self._watchers.get(key)
        if watching is None:
            return 0
        completed = 0
        for operation in tuple(watching):  # completing one changes the list, and may complete others
            if operation._purgatory is self and operation.try_complete():
                completed += 1
        return completed

    def mark(self, key: Hashable) -> None:
        """Remember that something happened to `key`, for `complete_marked`; cheap, for the hot path.

        A key that nobody watches needs no mark: an operation that comes later looks for itself first.
        """
        if key in self._watchers:
            marks = self._marks
            if not marks and self._on_mark is not None:
                self._on_mark()
            marks[key] = None

    def complete_marked(self) -> int:
        """Check all marked keys, once each; marks that are made meanwhile stay for the next turn."""
        marks = self._marks
        if not marks:
            return 0
        self._marks = {}
        return sum(map(self.check_and_complete, marks))

    def force_complete_all(self) -> None:
        """End every wait as it stands: the broker stops."""
        for watching in list(self._watchers.values()):
            for operation in tuple(watching):
                operation.force_complete()

    def _remove(self, operation: DelayedOperation) -> None:
        watchers = self._watchers
        for key in operation._keys:
            watching = watchers.get(key)
            if watching is not None and operation in watching:  # it isn't where a key was given twice
                del watching[operation]
                if not watching:
                    del watchers[key]
        operation._keys = ()
        operation._purgatory = None
        operation.cancel()
        self.delayed -= 1
