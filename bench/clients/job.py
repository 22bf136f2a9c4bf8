"""What a worker is asked to do, and what it answers: one line of JSON each way. No client is imported here."""

import json
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

# The topic of a job to consume has two partitions: the work, and one record to get going with before the clock runs.
WORK_PARTITION = 0
WARM_UP_PARTITION = 1

STALL_SECONDS = 60.0
# Alike for all: what a producer may gather and hold, where its defaults would make it a race of defaults.
LINGER_MS = 5
BATCH_BYTES = 1_000_000
BUFFER_BYTES = 128 * 1024 * 1024
POLL_RECORDS = 10_000
# A fetch that waits at the end of the warm-up partition holds the first one of the work up for as long as this.
FETCH_WAIT_MS = 10


class Job(NamedTuple):
    """Take `record_count` records of `value_bytes` to the topic's only partition, or from its first one."""

    bootstrap: str
    topic: str
    record_count: int
    value_bytes: int

    def to_text(self) -> str:
        return json.dumps(self._asdict())

    @classmethod
    def from_text(cls, text: str) -> "Job":
        return cls(**json.loads(text))


class Outcome(NamedTuple):
    """Seconds from the first record to the last one that is acknowledged or in the program's hands."""

    seconds: float
    value_bytes: int  # all that was sent or seen: whoever sees less has not done the work
    peak_bytes: int = 0
    file_bytes: int = 0  # of these, pages of libraries, which processes share

    def to_text(self) -> str:
        return json.dumps(self._asdict())

    @classmethod
    def from_text(cls, text: str) -> "Outcome":
        return cls(**json.loads(text))


Task: TypeAlias = Callable[[Job], Outcome]


def text_like(value_bytes: int) -> list[bytes]:
    """256 different values that compress about as logs do."""
    line = b'{"user":%07d,"page":"/article/%05d","agent":"Mozilla/5.0","ms":%04d} '
    text = b"".join(line % (n * 7919 % 9999991, n * 104729 % 99991, n * 31 % 9973) for n in range(5000))
    return [(text[start : start + value_bytes] * 2)[:value_bytes] for start in range(0, 256 * 677, 677)]
