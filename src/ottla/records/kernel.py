"""The C kernel (`_kernel.c`) where it was built, None where there was no compiler: nothing depends on it but speed.

It does what takes a step per record: walk through a batch, cut it into records, append a record to one, hash a key, and
the same for whole columns. Who wants one of these takes the face that works with and without it, with the same results:

- `records/fetched_record.py`: `split_records(batch, position, topic=…, partition=…)`, records that are made of bytes
  when their fields are looked at;
- `records/appender.py`: `BatchAppender(limit_bytes)`, `append(timestamp_ms, key, value, headers)` and `build(…)`;
- `records/walk.py`: `walk_records(…)`, whether the inside of a produced batch agrees with its header;
- `kernel.murmur2(key)` beside `clients/partitioning.py`;
- `ottla.columns` for Arrow.

`OTTLA_KERNEL=off` leaves it out, to compare or to get around it.
"""

import os
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["IS_COMPILED", "kernel"]

_INTERFACE = 3  # as in _kernel.c

if TYPE_CHECKING:
    from ottla.records import _kernel as kernel
else:
    kernel: ModuleType | None = None
    if os.environ.get("OTTLA_KERNEL", "on") != "off":
        try:
            from ottla.records import _kernel as kernel
        except ImportError:
            pass  # not built here
        else:
            # In a work tree the source may have moved on since it was built.
            if getattr(kernel, "INTERFACE", None) != _INTERFACE:
                kernel = None

IS_COMPILED: bool = kernel is not None
