"""Which ids are in the tables on Cassandra: digests by table and day, stored batch by batch, read once by a process.

A batch writes its digests last: ids of a batch that was cut short are not known, and it writes them again. One process
at a time writes to a table.
"""

import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from ottla.pipeline.stores.cassandra.connecting import Connection
from ottla.pipeline.stores.cassandra.schema import ID_INDEX
from ottla.pipeline.stores.id_index import BYTES_PER_ID, INDEX_BYTES_MAX, IdIndex
from ottla.pipeline.stores.judging import Ids
from ottla.pipeline.stores.port import Batch

_IDS_PER_PART: Final = 32 * 1024
_FETCHED_PARTS: Final = 16


class _Known:
    __slots__ = ("batches", "index")

    def __init__(self) -> None:
        self.batches: set[str] = set()
        self.index = IdIndex(Path(tempfile.gettempdir()))


class KnownIds:
    """Of one keyspace."""

    def __init__(self, connection: Connection, keyspace: str) -> None:
        self._connection = connection
        self._keyspace = keyspace
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()

    def without(self, table: str, day: str, batch: Batch) -> IdIndex:
        """The ids of a day, without those of an earlier attempt of this batch."""
        known = self._known.get((table, day))
        if known is None or str(batch) in known.batches:
            known = self._known[table, day] = self._read(table, day, str(batch))
        self._known.move_to_end((table, day))
        return known.index

    def note(self, table: str, day: str, batch: Batch, ids: Ids) -> None:
        """Durable when this returns."""
        statement = (
            f"INSERT INTO {self._keyspace}.{ID_INDEX} (of_table, day, of_batch, part, ids) VALUES (?, ?, ?, ?, ?)"
        )
        parts = ((table, day, str(batch), number, blob) for number, blob in enumerate(_blobs(ids)))
        self._connection.write_all(statement, parts)
        known = self._known.get((table, day))
        if known is not None:
            known.index.add(*ids)
            known.batches.add(str(batch))
        self._bound()

    def drop(self, table: str, day: str) -> None:
        self._connection.execute(
            f"DELETE FROM {self._keyspace}.{ID_INDEX} WHERE of_table = ? AND day = ?", [table, day]
        )
        self._known.pop((table, day), None)

    def _read(self, table: str, day: str, without: str) -> _Known:
        known = _Known()
        statement = f"SELECT of_batch, ids FROM {self._keyspace}.{ID_INDEX} WHERE of_table = ? AND day = ?"
        for page in self._connection.read(statement, [table, day], fetched_rows=_FETCHED_PARTS):
            for batch, blob in page:
                if batch != without:
                    known.index.add(*np.frombuffer(blob, "<u8").reshape(3, -1).astype(np.uint64))
                    known.batches.add(batch)
        return known

    def _bound(self) -> None:
        used = sum(len(known.index) for known in self._known.values()) * BYTES_PER_ID
        while used > INDEX_BYTES_MAX and len(self._known) > 1:
            _, dropped = self._known.popitem(last=False)
            used -= len(dropped.index) * BYTES_PER_ID


def _blobs(ids: Ids) -> Iterator[bytes]:
    for start in range(0, len(ids.first), _IDS_PER_PART):
        part = slice(start, start + _IDS_PER_PART)
        yield np.stack([ids.first[part], ids.second[part], ids.body[part]]).astype("<u8").tobytes()
