"""The records of one partition from an offset to before another, in no group; it ends or fails, in time."""

import time
from collections.abc import Iterator
from typing import Final

from ottla.clients.consumer.consumer import Consumer
from ottla.clients.consumer.values import ConsumerRecord
from ottla.clients.errors import TimedOut
from ottla.core.types import TopicPartition

_POLL_MS: Final = 500
_PATIENCE_S: Final = 60.0


def read_range(consumer: Consumer, place: TopicPartition, *, start: int, end: int) -> Iterator[ConsumerRecord]:
    """Takes the consumer for itself meanwhile. TimedOut when nothing comes for a minute."""
    consumer.assign([place])
    consumer.seek(place, start)
    position, moved_at_s = start, time.monotonic()
    while position < end:
        for record in consumer.poll(_POLL_MS):
            if record.offset >= end:
                return
            yield record
        # By position, not by records: there may be none up to the end, where a topic is compacted.
        reached = consumer.position(place)
        if reached > position:
            position, moved_at_s = reached, time.monotonic()
        elif time.monotonic() - moved_at_s > _PATIENCE_S:
            why = consumer.unreachable or "no broker says why"
            raise TimedOut(f"{place}: nothing came from offset {position} on for {_PATIENCE_S:.0f} s: {why}")
