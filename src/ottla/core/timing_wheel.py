"""The hierarchical timing wheel: many timers, each added, cancelled and expired in constant time.

It has no clock and no thread: its owner asks `next_expiry_ms()`, sets one timer of the event loop for it and calls
`advance(now_ms)`. Everything runs on the owner's thread.
"""

# How it works, with a tick of 1 ms and 20 slots to a wheel.
#
# A heap of timers costs O(log n) for each add and cannot cancel without a search. Nearly all our timers are cancelled
# (a fetch is answered long before its max wait), so both must be cheap. A wheel is an array of buckets, each a linked
# list of the tasks that expire in the same tick. The finest wheel spans 20 ticks from its clock, here at 0:
#
#     wheel 0   tick   1 ms   spans [0, 20)      slot = expiration % 20
#     wheel 1   tick  20 ms   spans [0, 400)     slot = expiration // 20 % 20
#     wheel 2   tick 400 ms   spans [0, 8000)    slot = expiration // 400 % 20
#
# A task goes into the finest wheel that spans its expiration; wheels are added on top as they are needed, so a delay
# of a year takes 9 of them. Add is a division and four pointer writes, cancel is four pointer writes.
#
# Worked example. At clock 0 add A for 7 ms, B for 45 ms, C for 410 ms:
#
#     A -> wheel 0, slot 7,  bucket expires at 7
#     B -> wheel 1, slot 2,  bucket expires at 40, the start of [40, 60)
#     C -> wheel 2, slot 1,  bucket expires at 400, the start of [400, 800)
#
# Stepping through empty slots would cost work for each millisecond that passes. Instead the buckets that are in use
# lie in one delay queue, a heap ordered by when they expire: (7, A's) (40, B's) (400, C's). Tasks never enter that
# heap: a bucket is pushed when it gets its first task, and there are 20 buckets to a wheel, so the heap stays as small
# as that however many tasks there are.
#
#     advance(7)     takes A's bucket. A is due and runs.
#     advance(44)    takes B's bucket at 40 and sets the clock to 40: now wheel 0 spans [40, 60). B is not due; it is
#                    placed again and falls to wheel 0, slot 45 % 20 = 5, bucket expires at 45.
#     advance(45)    B runs. Each wheel that a task falls through costs one more placing: at most the number of wheels.
#
# Why a slot never mixes two rounds: a wheel with its clock at c holds expirations in [c + tick, c + 20 * tick), 19
# slots, so the slot of c itself takes no new task. The clock is moved only to the expiration of the first bucket in
# the queue, or to `now_ms` when no bucket expires before it: a bucket is always emptied before its slot comes round.

import sys
from heapq import heappop, heappush

_NOT_QUEUED = -1


class _Link:
    """A node in a circular doubly linked list; the list's head is a link as well."""

    __slots__ = ("_next", "_previous")

    _next: "_Link"
    _previous: "_Link"


# The neighbour of every task that is in no bucket; a task that pointed at itself would be a reference cycle.
_NOWHERE = _Link()


class TimerTask(_Link):
    """Something to run once at a later time; subclasses implement `run`.

    It can be added again after it ran or was cancelled, also from within `run`.
    """

    __slots__ = ("_wheel", "expiration_ms")

    def __init__(self) -> None:
        self._next = _NOWHERE
        self._previous = _NOWHERE
        self._wheel: TimingWheel | None = None
        self.expiration_ms = 0

    @property
    def is_scheduled(self) -> bool:
        return self._wheel is not None

    def run(self, now_ms: int) -> None:
        """Called by `TimingWheel.advance` when the time has come; the task is no longer in the wheel."""
        raise NotImplementedError

    def cancel(self) -> bool:
        """Take it out of its wheel; False when it was in none (never added, already run, already cancelled)."""
        wheel = self._wheel
        if wheel is None:
            return False
        following = self._next
        preceding = self._previous
        preceding._next = following
        following._previous = preceding
        self._next = self._previous = _NOWHERE
        self._wheel = None
        wheel._size -= 1
        return True


class _Bucket(_Link):
    """The tasks of one slot; as a link it is the head of their list."""

    __slots__ = ("expiration_ms",)

    def __init__(self) -> None:
        self._next = self
        self._previous = self
        self.expiration_ms = _NOT_QUEUED


class _Wheel:
    """One ring of buckets."""

    __slots__ = ("buckets", "clock_ms", "span_ms", "tick_ms")

    def __init__(self, *, tick_ms: int, slots: int, clock_ms: int) -> None:
        self.tick_ms = tick_ms
        self.span_ms = tick_ms * slots
        self.clock_ms = clock_ms - clock_ms % tick_ms
        self.buckets = [_Bucket() for _ in range(slots)]


class TimingWheel:
    """All timers of one owner. Expirations are rounded up to the tick: no task runs early."""

    __slots__ = ("_queue", "_size", "_slots", "_wheels")

    def __init__(self, *, tick_ms: int = 1, slots: int = 20, start_ms: int = 0) -> None:
        if tick_ms < 1 or slots < 2:
            raise ValueError(f"a timing wheel needs tick_ms >= 1 and slots >= 2, got {tick_ms} and {slots}")
        self._slots = slots
        self._wheels = [_Wheel(tick_ms=tick_ms, slots=slots, clock_ms=start_ms)]
        # (expiration_ms, tick_ms, bucket): of one wheel no two buckets expire together, so buckets are never compared.
        self._queue: list[tuple[int, int, _Bucket]] = []
        self._size = 0

    def __len__(self) -> int:
        """How many tasks wait."""
        return self._size

    def add(self, task: TimerTask, *, delay_ms: int, now_ms: int) -> None:
        """Let `task` run in `delay_ms`; one that already waits is moved.

        A delay of zero or less is due at the next tick: nothing ever runs inside `add`.
        """
        if task._wheel is not None:
            task.cancel()
        queue = self._queue
        finest = self._wheels[0]
        if now_ms > finest.clock_ms and (not queue or queue[0][0] > now_ms):
            # After an idle hour the clock would be an hour behind, and a short delay would start in a coarse wheel.
            self._set_clock(now_ms)
        tick_ms = finest.tick_ms
        expiration_ms = now_ms + delay_ms if delay_ms > 0 else now_ms
        expiration_ms += -expiration_ms % tick_ms
        if expiration_ms <= finest.clock_ms:
            expiration_ms = finest.clock_ms + tick_ms
        task.expiration_ms = expiration_ms
        task._wheel = self
        self._size += 1
        self._place(task, expiration_ms)

    def advance(self, now_ms: int, *, step_limit: int = sys.maxsize) -> int:
        """Run what is due at `now_ms`, oldest tick first; returns how many tasks ran.

        A step is a task that is run or that falls to a finer wheel. After `step_limit` of them the rest stays due
        (`next_expiry_ms` says so), so that a crowd of timers cannot hold the event loop for long.
        """
        queue = self._queue
        steps = 0
        ran = 0
        while queue:
            entry = queue[0]
            expiration_ms = entry[0]
            if expiration_ms > now_ms:
                break
            bucket = entry[2]
            self._set_clock(expiration_ms)
            # The bucket stays in the queue until it is empty: if a task raises, the others are not lost.
            while (task := bucket._next) is not bucket:
                if steps >= step_limit:
                    return ran
                steps += 1
                assert isinstance(task, TimerTask)
                if task.expiration_ms <= expiration_ms:
                    task.cancel()
                    ran += 1
                    task.run(now_ms)
                else:
                    following = task._next
                    bucket._next = following
                    following._previous = bucket
                    self._place(task, task.expiration_ms)
            if queue and queue[0] is entry:  # a task that asked for next_expiry_ms() has already removed it
                heappop(queue)
                bucket.expiration_ms = _NOT_QUEUED
        if now_ms > self._wheels[0].clock_ms:
            self._set_clock(now_ms)
        return ran

    def next_expiry_ms(self) -> int | None:
        """When to call `advance` next; None when nothing waits.

        For a far task this is the start of its coarse bucket, earlier than the task itself.
        """
        queue = self._queue
        while queue:
            expiration_ms, _, bucket = queue[0]
            if bucket._next is not bucket:
                return expiration_ms
            heappop(queue)  # all its tasks were cancelled
            bucket.expiration_ms = _NOT_QUEUED
        return None

    def _set_clock(self, now_ms: int) -> None:
        for wheel in self._wheels:
            clock_ms = now_ms - now_ms % wheel.tick_ms
            if clock_ms == wheel.clock_ms:
                return  # then nothing changes for the coarser ones
            wheel.clock_ms = clock_ms

    def _place(self, task: TimerTask, expiration_ms: int) -> None:
        for wheel in self._wheels:
            if expiration_ms < wheel.clock_ms + wheel.span_ms:
                break
        else:
            wheel = self._add_wheels_up_to(expiration_ms)
        tick_ms = wheel.tick_ms
        tick = expiration_ms // tick_ms
        bucket = wheel.buckets[tick % self._slots]
        last = bucket._previous
        last._next = task
        task._previous = last
        task._next = bucket
        bucket._previous = task
        if bucket.expiration_ms == _NOT_QUEUED:
            bucket.expiration_ms = tick * tick_ms
            heappush(self._queue, (tick * tick_ms, tick_ms, bucket))
        else:
            assert bucket.expiration_ms == tick * tick_ms, "a slot holds tasks of two rounds"

    def _add_wheels_up_to(self, expiration_ms: int) -> _Wheel:
        wheels = self._wheels
        clock_ms = wheels[0].clock_ms
        while True:
            wheel = _Wheel(tick_ms=wheels[-1].span_ms, slots=self._slots, clock_ms=clock_ms)
            wheels.append(wheel)
            if expiration_ms < wheel.clock_ms + wheel.span_ms:
                return wheel
