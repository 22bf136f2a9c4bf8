"""Merges small files of one day: a new folder is built beside the table and replaces the old one in one step.

A reader that lists the day sees all of its files before the merge, or all after: no row twice, none missing. A reader
that listed it before and opens a file after finds that file gone, and has to list again. Where the file system cannot
exchange two folders in one step, files are not merged.
"""

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from ottla.pipeline.stores.embedded import parquet_files
from ottla.pipeline.stores.embedded.files import Files
from ottla.pipeline.stores.embedded.parquet_files import DayFile

# Files are merged with others of their size class, so that a row is written at most once for each class.
MERGED_FILES: Final = 16
_SIZE_STEPS_BYTES: Final = (1 << 20, 16 << 20, 256 << 20)


class Merged(NamedTuple):
    inputs: frozenset[str]
    output: str


def merge_small_files(folder: Path, built: Path, schema: pa.Schema, files: Files, *, without: str) -> Merged | None:
    """One merge, if the day has enough files of one size; `without` names a file that stays as it is."""
    there = parquet_files.files_in(folder)
    chosen = choose([file for file in there if file.name != without])
    if not chosen:
        return None
    output = f"part-merged-{uuid.uuid4().hex}-0.parquet"
    built.mkdir()
    for file in there:
        if file.name not in chosen:
            (built / file.name).hardlink_to(folder / file.name)
    inputs = [folder / name for name in chosen]
    rows = parquet_files.merge(inputs, built / output, schema)
    expected = sum(parquet_files.row_count(path) for path in inputs)
    assert rows == expected == parquet_files.row_count(built / output), f"{folder}: {rows} rows merged of {expected}"
    files.sync_files([built / output])
    files.sync_folders([built])
    is_done = files.exchange(built, folder)
    files.sync_folders([folder.parent])
    files.remove_tree(built)
    return Merged(frozenset(chosen), output) if is_done else None


def choose(there: Sequence[DayFile]) -> list[str]:
    """The names of the smallest files that are worth merging now."""
    for smallest, largest in zip((0, *_SIZE_STEPS_BYTES), _SIZE_STEPS_BYTES, strict=False):
        alike = [file.name for file in there if smallest <= file.size_bytes < largest]
        if len(alike) >= MERGED_FILES:
            return alike
    return []
