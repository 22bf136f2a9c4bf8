"""One consumer, a pool of workers: for slow work per record, beyond the number of partitions.

Workers finish in any order, so the program commits an offset only when it and all before it are done. It pauses
partitions with too many records in progress; before partitions are revoked, it waits for their records and commits
them. After a crash a record may be processed twice, but none is lost.

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

IN_PROGRESS_MAX = 100  # records of a partition, before it is paused


class Progress:
    """The records of one partition that the workers have, in order."""

    def __init__(self) -> None:
        self._in_progress: dict[int, Future[None]] = {}  # by offset, the oldest first

    def add(self, offset: int, work: "Future[None]") -> None:
        self._in_progress[offset] = work

    @property
    def count(self) -> int:
        return len(self._in_progress)

    def pending(self) -> "list[Future[None]]":
        return list(self._in_progress.values())

    def take_done(self) -> int | None:
        """The offset to commit: the one after the last record that is done without a gap; None if there is nothing new.

        Raises the error of a record that failed: neither it nor any later record is committed.
        """
        next_offset = None
        while self._in_progress:
            offset, work = next(iter(self._in_progress.items()))
            if not work.done():
                break
            work.result()
            next_offset = offset + 1
            del self._in_progress[offset]
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
        """The last chance: finish and commit the records in progress before another consumer continues."""
        gone = {place: self._progress.pop(place) for place in places if place in self._progress}
        wait([work for progress in gone.values() for work in progress.pending()])
        self._commit_done(gone)

    def on_partitions_lost(self, places: Sequence[TopicPartition]) -> None:
        """Another consumer may read them already: forget them."""
        for place in places:
            self._progress.pop(place, None)

    def _commit_done(self, progress: dict[TopicPartition, Progress]) -> None:
        done = {place: each.take_done() for place, each in progress.items()}
        offsets = {place: offset for place, offset in done.items() if offset is not None}
        if offsets:
            self._consumer.commit(offsets)

    def _hold_back(self) -> None:
        consumer = self._consumer
        full = {place for place, progress in self._progress.items() if progress.count >= IN_PROGRESS_MAX}
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
