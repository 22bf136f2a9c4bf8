"""A reader for clients whose consumer has the names of Java's: what is left to say is what they take and give."""

from collections.abc import Mapping
from typing import Any

from tests.scenarios.port import Committed


class JavaNamedReader:
    """Of one topic. `poll` and `committed` are each client's own."""

    partition_type: Any
    offset_type: Any

    def __init__(self, consumer: Any, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic

    def _at(self, partition: int) -> Any:
        return self.partition_type(self._topic, partition)

    def commit(self, offsets: Mapping[int, Committed] | None = None) -> None:
        if offsets is None:
            self._consumer.commit()
        else:
            self._consumer.commit({self._at(each): self.offset_type(*offsets[each]) for each in offsets})

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(self._at(partition), offset)

    def seek_to_beginning(self, partition: int) -> None:
        self._consumer.seek_to_beginning(self._at(partition))

    def seek_to_end(self, partition: int) -> None:
        self._consumer.seek_to_end(self._at(partition))

    def position(self, partition: int) -> int:
        offset: int = self._consumer.position(self._at(partition))
        return offset

    def offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        found = self._consumer.offsets_for_times({self._at(partition): timestamp_ms})[self._at(partition)]
        return None if found is None else found.offset

    def ends(self, partition: int) -> tuple[int, int]:
        place = self._at(partition)
        return self._consumer.beginning_offsets([place])[place], self._consumer.end_offsets([place])[place]

    def pause(self, partition: int) -> None:
        self._consumer.pause(self._at(partition))

    def resume(self, partition: int) -> None:
        self._consumer.resume(self._at(partition))

    def close(self) -> None:
        self._consumer.close()
