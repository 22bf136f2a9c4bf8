"""The buffer pool and the memory budget, without sockets."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.net.buffer_pool import BufferPool
from ottla.net.memory_budget import MemoryBudget


class Waiter:
    def __init__(self) -> None:
        self.granted_bytes = 0

    def on_budget_granted(self, length: int) -> None:
        self.granted_bytes += length


def test_buffer_is_large_enough_writable_and_used_again() -> None:
    pool = BufferPool()
    for length in (1, 8192, 8193, 131_072, 131_073, 3_000_000):
        buffer = pool.take(length)
        assert len(buffer) >= length
        buffer[:1] = b"x"
        pool.give(buffer)
        assert pool.take(length) is buffer


def test_pool_keeps_no_more_than_its_bound() -> None:
    pool = BufferPool(retained_max_bytes=100_000)
    buffers = [pool.take(8192) for _ in range(50)]
    for buffer in buffers:
        pool.give(buffer)
    assert pool.retained_bytes == 12 * 8192


def test_trim_lets_go_of_what_nobody_took_and_keeps_what_is_in_use() -> None:
    pool = BufferPool()
    for buffer in [pool.take(8192) for _ in range(16)]:
        pool.give(buffer)
    pool.trim()  # all of them were in use since the last one
    assert pool.retained_bytes == 16 * 8192
    in_use = [pool.take(8192) for _ in range(4)]
    for buffer in in_use:
        pool.give(buffer)
    pool.trim()
    assert pool.retained_bytes == 10 * 8192
    for _ in range(10):
        pool.trim()
    assert pool.retained_bytes == 0


def test_line_is_served_in_order_and_nobody_overtakes() -> None:
    budget = MemoryBudget(100)
    first, second, third = Waiter(), Waiter(), Waiter()
    assert budget.take_or_wait(first, 80)
    assert not budget.take_or_wait(second, 50)
    assert not budget.take_or_wait(third, 10)  # would fit, but comes after the second
    assert budget.is_tight
    budget.release(80)
    assert (second.granted_bytes, third.granted_bytes) == (50, 10)
    assert not budget.is_tight


def test_bytes_set_aside_count_but_never_keep_the_last_frame_waiting() -> None:
    budget = MemoryBudget(100)
    budget.set_aside(90)
    waiter, other = Waiter(), Waiter()
    assert budget.take_or_wait(waiter, 500)
    assert not budget.take_or_wait(other, 20)
    budget.release(500)
    assert other.granted_bytes == 20


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["take", "release", "leave"]), st.integers(1, 150)), max_size=60))
def test_budget_is_kept_and_everybody_gets_in_at_last(steps: list[tuple[str, int]]) -> None:
    budget = MemoryBudget(100)
    holding: list[tuple[Waiter, int]] = []
    waiting: list[tuple[Waiter, int]] = []

    def settle() -> None:
        for entry in [entry for entry in waiting if entry[0].granted_bytes]:
            waiting.remove(entry)
            holding.append(entry)

    for action, length in steps:
        if action == "take":
            waiter = Waiter()
            (holding if budget.take_or_wait(waiter, length) else waiting).append((waiter, length))
        elif action == "release" and holding:
            budget.release(holding.pop(length % len(holding))[1])
        elif action == "leave" and waiting:
            budget.leave_line(waiting.pop(length % len(waiting))[0])
        settle()
        assert budget.reserved_bytes == sum(length for _, length in holding)
        assert budget.reserved_bytes <= 100 or len(holding) == 1
    while holding:
        budget.release(holding.pop()[1])
        settle()
    assert waiting == []
    assert budget.reserved_bytes == 0
    assert not budget.is_tight
