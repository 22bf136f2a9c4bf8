"""The garbage collector in a simulation: it looks at young objects rarely, for most of them are freed without it."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_COLLECTED_AFTER: Final = 20_000  # new objects; by default 700, and then a fifteenth of the time goes there


@contextmanager
def rare_collections() -> Iterator[None]:
    """What is done within; nothing of it can depend on when garbage is freed."""
    thresholds = gc.get_threshold()
    gc.set_threshold(_COLLECTED_AFTER, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
