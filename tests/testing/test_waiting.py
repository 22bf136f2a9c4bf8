"""Waits end with what they waited for, or with a message that says what was there."""

import asyncio

import pytest

from ottla.testing.waiting import WaitTimedOut, wait_until


def test_the_first_true_result_is_returned() -> None:
    results = iter([0, None, "", "found"])
    assert wait_until(lambda: next(results)) == "found"


def test_a_failed_assertion_means_not_yet() -> None:
    attempts = []

    def condition() -> bool:
        attempts.append(1)
        assert len(attempts) > 2, "too early"
        return True

    assert wait_until(condition)


def test_the_message_says_what_was_awaited_and_what_was_seen() -> None:
    with pytest.raises(WaitTimedOut, match=r"waited 1 ms until it rains; at the end the sun shone"):
        wait_until(lambda: False, timeout_ms=1, what="it rains", seen=lambda: "the sun shone")
    with pytest.raises(WaitTimedOut, match=r"at the end it gave 0"):
        wait_until(lambda: 0, timeout_ms=0)


def test_a_failed_assertion_is_shown_at_the_end() -> None:
    def condition() -> bool:
        raise AssertionError("2 of 3 are there")

    with pytest.raises(WaitTimedOut, match="2 of 3 are there"):
        wait_until(condition, timeout_ms=1)


def test_other_errors_are_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 // 0)


def test_a_wait_that_blocked_an_event_loop_says_so() -> None:
    async def main() -> None:
        wait_until(lambda: False, timeout_ms=1)

    with pytest.raises(WaitTimedOut, match=r"blocked a running event loop: use `await broker\.aio"):
        asyncio.run(main())
