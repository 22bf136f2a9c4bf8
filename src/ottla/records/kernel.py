"""The C kernel (`_kernel.c`) where it was built, None where there was no compiler: only speed depends on it.

It does the work that takes a step per record: walk through a batch, split it into records, append a record, hash a
key, and the same for whole columns. Use these functions, which have the same results with and without it:

- `records/fetched_record.py`: `split_records(batch, position, topic=…, partition=…)`, records that decode a field
  when it is read;
- `records/appender.py`: `BatchAppender(limit_bytes)`, `append(timestamp_ms, key, value, headers)` and `build(…)`;
- `records/walk.py`: `walk_records(…)`, whether the inside of a produced batch agrees with its header;
- `kernel.murmur2(key)` beside `clients/partitioning.py`;
- `ottla.columns` for Arrow.

`OTTLA_KERNEL=off` leaves it out, for comparisons and as a workaround.
"""

import os
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["IS_COMPILED", "kernel"]

_INTERFACE = 4  # as in _kernel.c

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
            # In a work tree the source may be newer than the build.
            if getattr(kernel, "INTERFACE", None) != _INTERFACE:
                kernel = None

IS_COMPILED: bool = kernel is not None
