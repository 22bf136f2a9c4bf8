"""Waits until something is true, up to a timeout, and reports what was seen instead."""

import sys
import time
from collections.abc import Callable
from typing import Final, TypeVar

DEFAULT_TIMEOUT_MS: Final = 10_000
_POLL_FIRST_S: Final = 0.005
_POLL_MAX_S: Final = 0.05

T = TypeVar("T")


class WaitTimedOut(AssertionError):
    """What a test waited for did not happen; the message says what was seen at the end."""


def wait_until(
    condition: Callable[[], T],
    *,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
    what: str = "the condition",
    seen: Callable[[], str] | None = None,
) -> T:
    """Returns the first true result. An AssertionError from the condition means "not yet"; the last one is reported."""
    deadline = time.monotonic() + timeout_ms / 1000
    pause_s = _POLL_FIRST_S
    while True:
        failure: AssertionError | None = None
        result: T | None = None
        try:
            result = condition()
            if result:
                return result
        except AssertionError as error:
            failure = error
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            break
        time.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, _POLL_MAX_S)
    last = seen() if seen is not None else str(failure) if failure is not None else f"it gave {result!r}"
    raise WaitTimedOut(f"waited {timeout_ms} ms until {what}; at the end {last}{_hint()}") from failure


def _hint() -> str:
    """A test that blocks its own event loop waits for something that can't happen."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return ""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return ""
    return ". This wait blocked a running event loop: use `await broker.aio....` in asynchronous tests"
