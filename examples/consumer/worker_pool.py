"""One consumer, a pool of workers: for slow work per record, beyond the number of partitions.

Workers finish in any order, so only what is done without a gap is committed: an offset is committed when it and all
before it are through. Partitions with too much under way are paused; before partitions go, what they have under way is
waited for and committed. A record may be worked on twice after a crash, none is left out.

    python worker_pool.py 127.0.0.1:9092 TOPIC 8
"""

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from ottla import Consumer
from ottla.clients.consumer.listener import RebalanceListener
from ottla.core.types import TopicPartition

UNDER_WAY_MAX = 100  # of a partition, before it is paused


class Progress:
    """What of one partition was given to workers, in order."""

    def __init__(self) -> None:
        self._under_way: dict[int, Future[None]] = {}  # by offset, the oldest first

    def add(self, offset: int, work: "Future[None]") -> None:
        self._under_way[offset] = work

    @property
    def count(self) -> int:
        return len(self._under_way)

    def pending(self) -> "list[Future[None]]":
        return list(self._under_way.values())

    def take_done(self) -> int | None:
        """The offset to commit: behind the last one that is done without a gap; None when there is nothing new.

        A record whose work failed raises here: nothing from it on is ever committed.
        """
        next_offset = None
        while self._under_way:
            offset, work = next(iter(self._under_way.items()))
            if not work.done():
                break
            work.result()
            next_offset = offset + 1
            del self._under_way[offset]
        return next_offset


class PooledReader(RebalanceListener):
    """Owned by the thread that calls `run`; `work` runs in the pool's threads."""

    def __init__(self, settings: dict[str, Any], topic: str, work: Callable[[Any], None], *, workers: int) -> None:
        self._consumer = Consumer({**settings, "enable.auto.commit": False})
        self._topic = topic
        self._work = work
        self._pool = ThreadPoolExecutor(workers)
        self._progress: dict[TopicPartition, Progress] = {}

    def run(self, should_stop: Callable[[], bool]) -> None:
        try:
            with self._consumer as consumer:
                consumer.subscribe([self._topic], self)
                while not should_stop():
                    for record in consumer.poll(timeout_ms=20):
                        place = TopicPartition(record.topic, record.partition)
                        progress = self._progress.setdefault(place, Progress())
                        progress.add(record.offset, self._pool.submit(self._work, record))
                    self._commit_done(self._progress)
                    self._hold_back()
        finally:
            self._pool.shutdown()

    def on_partitions_revoked(self, places: Sequence[TopicPartition]) -> None:
        """The last chance: what is under way is finished and committed before another consumer goes on."""
        gone = {place: self._progress.pop(place) for place in places if place in self._progress}
        wait([work for progress in gone.values() for work in progress.pending()])
        self._commit_done(gone)

    def on_partitions_lost(self, places: Sequence[TopicPartition]) -> None:
        """Another may be reading them already: forget them."""
        for place in places:
            self._progress.pop(place, None)

    def _commit_done(self, progress: dict[TopicPartition, Progress]) -> None:
        done = {place: each.take_done() for place, each in progress.items()}
        offsets = {place: offset for place, offset in done.items() if offset is not None}
        if offsets:
            self._consumer.commit(offsets)

    def _hold_back(self) -> None:
        consumer = self._consumer
        full = {place for place, progress in self._progress.items() if progress.count >= UNDER_WAY_MAX}
        paused = consumer.paused()
        consumer.pause(*(full - paused))
        consumer.resume(*(paused - full))


def main(bootstrap: str, topic: str, workers: str) -> None:
    def work(record: Any) -> None:
        time.sleep(0.01)
        print(record.partition, record.offset)

    settings = {"bootstrap.servers": bootstrap, "group.id": "pool", "auto.offset.reset": "earliest"}
    PooledReader(settings, topic, work, workers=int(workers)).run(lambda: False)


if __name__ == "__main__":
    main(*sys.argv[1:4])
