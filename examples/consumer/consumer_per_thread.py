"""One consumer per thread: the simple way to use several partitions at once. Order within a partition is kept.

A consumer belongs to its thread; another thread only calls `wakeup`, to stop it. The group assigns the partitions to
all threads, in as many processes as you start.

    python consumer_per_thread.py 127.0.0.1:9092 TOPIC 3
"""

import sys
import threading
from collections.abc import Callable
from typing import Any

from ottla import Consumer
from ottla.clients.consumer.errors import WokenUp


class ReaderThread(threading.Thread):
    """Reads until `stop`; commits after `handle` is done with a batch."""

    def __init__(self, settings: dict[str, Any], topic: str, handle: Callable[[Any], None]) -> None:
        super().__init__()
        self._topic = topic
        self._handle = handle
        self._consumer = Consumer({**settings, "enable.auto.commit": False})

    def run(self) -> None:
        with self._consumer as consumer:
            consumer.subscribe([self._topic])
            try:
                while True:
                    records = consumer.poll(timeout_ms=1_000)
                    for record in records:
                        self._handle(record)
                    if records:
                        consumer.commit()
            except WokenUp:
                pass  # `stop` was called; leaving the block leaves the group

    def stop(self) -> None:
        self._consumer.wakeup()


def main(bootstrap: str, topic: str, count: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "group.id": "per-thread", "auto.offset.reset": "earliest"}
    threads = [
        ReaderThread(settings, topic, lambda record: print(record.partition, record.offset, record.value))
        for _ in range(int(count))
    ]
    for thread in threads:
        thread.start()
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        for thread in threads:
            thread.stop()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:4])
