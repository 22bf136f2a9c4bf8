"""Producer ids, unique in the cluster: taken from the store in blocks of a thousand, handed out one by one."""

import logging
from collections import deque
from collections.abc import Callable

from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import Code, Result, Store
from ottla.core.types import BrokerId, ProducerId

_LOG = logging.getLogger("ottla.producer_ids")
_BLOCK_SIZE = 1_000

OnId = Callable[[ProducerId | None], None]


class ProducerIds:
    """The block that this broker holds; what is left of it at a stop is never used."""

    def __init__(self, store: Store, broker_id: BrokerId) -> None:
        self._store = store
        self._broker_id = broker_id
        self._next: ProducerId = 0
        self._end: ProducerId = 0  # exclusive
        self._waiting: deque[OnId] = deque()

    def next(self, on_id: OnId) -> None:
        """Give the next id, or None when the store failed."""
        if self._next < self._end:
            self._next += 1
            on_id(self._next - 1)
            return
        self._waiting.append(on_id)
        if len(self._waiting) == 1:
            self._take_block()

    def _take_block(self) -> None:
        path = paths.PRODUCER_ID_BLOCK

        def on_read(result: Result) -> None:
            if not result.is_ok or result.stat is None:
                self._settle(None)
                return
            try:
                first = paths.decode_producer_id_block(path, result.value).last_producer_id + 1 if result.value else 0
            except MalformedNodeError as error:
                _LOG.error("%s", error)
                self._settle(None)
                return
            value = paths.encode_producer_id_block(
                paths.ProducerIdBlock(self._broker_id, first, first + _BLOCK_SIZE - 1)
            )

            def on_written(written: Result) -> None:
                if written.code == Code.BAD_VERSION:
                    self._take_block()  # another broker was faster
                else:
                    self._settle(first if written.is_ok else None)

            self._store.set(path, value, on_written, version=result.stat.version)

        self._store.get(path, on_read)

    def _settle(self, first: ProducerId | None) -> None:
        waiting, self._waiting = self._waiting, deque()
        if first is not None:
            self._next, self._end = first, first + _BLOCK_SIZE
        for on_id in waiting:
            if first is None:
                on_id(None)
            else:
                self.next(on_id)
