"""Compares two Arrow tables by their key: rows that only one has, and rows that differ.

Works on columns throughout: a row becomes a Python object only when it is shown. Keys must be unique and not null.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

_HERE: Final = "is_expected"
_THERE: Final = "is_seen"
_SUFFIX: Final = " seen"  # in no column's name


class RowDifference(NamedTuple):
    """Tables with the key; `changed` has every compared column twice, with the other table's as `<column> seen`."""

    missing: pa.Table
    surplus: pa.Table
    changed: pa.Table

    def changed_rows(self, limit: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """The first rows that differ, as (expected, seen) in the columns that do."""
        pairs = []
        for row in self.changed.slice(0, limit).to_pylist():
            seen = {name.removesuffix(_SUFFIX): value for name, value in row.items() if name.endswith(_SUFFIX)}
            names = [name for name in seen if seen[name] != row[name]]
            pairs.append(({name: row[name] for name in names}, {name: seen[name] for name in names}))
        return pairs


def row_difference(expected: pa.Table, seen: pa.Table, *, key: Sequence[str]) -> RowDifference:
    """Both have the same columns."""
    values = [name for name in expected.column_names if name not in key]
    flag = pa.array([True]).cast(pa.bool_())
    here = expected.append_column(_HERE, _repeated(flag, expected.num_rows))
    there = seen.select(expected.column_names).append_column(_THERE, _repeated(flag, seen.num_rows))
    joined = here.join(there, keys=list(key), join_type="full outer", right_suffix=_SUFFIX)
    is_here, is_there = (pc.is_valid(joined.column(name)) for name in (_HERE, _THERE))
    in_both = joined.filter(pc.and_(is_here, is_there))
    differs = _repeated(pa.array([False]), in_both.num_rows)
    for name in values:
        differs = pc.or_(differs, _is_different(in_both.column(name), in_both.column(name + _SUFFIX)))
    surplus = joined.filter(pc.invert(is_here)).select([*key, *(name + _SUFFIX for name in values)])
    return RowDifference(
        missing=joined.filter(pc.invert(is_there)).select([*key, *values]),
        surplus=surplus.rename_columns([name.removesuffix(_SUFFIX) for name in surplus.column_names]),
        changed=in_both.filter(differs).drop_columns([_HERE, _THERE]),
    )


def _is_different(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    """A null equals a null and nothing else."""
    one_null = pc.xor(pc.is_null(left), pc.is_null(right))
    return pc.or_(one_null, pc.fill_null(pc.not_equal(left, right), False))


def _repeated(value: pa.Array, count: int) -> pa.ChunkedArray:
    return pa.chunked_array([pa.repeat(value[0], count)])
