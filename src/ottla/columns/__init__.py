"""Record batches straight to and from Arrow tables, with no Python object per record; the extra `columns`.

    table = ottla.columns.read("orders", bootstrap_servers="127.0.0.1:9092")

The package itself is pure: bytes in, `pyarrow.RecordBatch` out, and back. `read` and `read_batches`, which fetch from a
cluster, come from the clients' package above, and are loaded when first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ottla.core.extras import needs_extra

if TYPE_CHECKING:
    from ottla.columns.decoding import ColumnDecoder
    from ottla.columns.encoding import batches_of, encode_batches
    from ottla.columns.schema import RECORD_SCHEMA, RECORD_SCHEMA_WITH_HEADERS

__all__ = [
    "RECORD_SCHEMA",
    "RECORD_SCHEMA_WITH_HEADERS",
    "ColumnDecoder",
    "batches_of",
    "encode_batches",
    "read",  # lent
    "read_batches",
]

_HOMES = {
    "ColumnDecoder": "ottla.columns.decoding",
    "RECORD_SCHEMA": "ottla.columns.schema",
    "RECORD_SCHEMA_WITH_HEADERS": "ottla.columns.schema",
    "batches_of": "ottla.columns.encoding",
    "encode_batches": "ottla.columns.encoding",
    "read": "ottla.clients.column_reading",
    "read_batches": "ottla.clients.column_reading",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ottla.columns' has no attribute {name!r}")
    with needs_extra(f"ottla.columns.{name}", "columns"):
        return getattr(importlib.import_module(home), name)
