"""Parquet files of the log tables in folders of any name."""

from pathlib import Path

import pyarrow as pa
import pytest

from ottla.pipeline.stores.embedded import parquet_files

ROWS = pa.table({"number": [1, 2, 3]})


@pytest.mark.parametrize("name", ["a:b", "s3:x", "file:x", "file%3Ax", "a b é+@%20#x?y,z'q\"$HOME\\{a}[b]*\nend"])
def test_a_relative_folder_of_any_name_is_written_merged_and_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path(name)
    folder.mkdir()
    first, second, merged = (folder / f"{each}.parquet" for each in ("first", "second", "merged"))
    for path in (first, second):
        path.write_bytes(parquet_files.encode(ROWS))

    assert parquet_files.merge([first, second], merged, ROWS.schema) == 6
    assert parquet_files.row_count(merged) == 6
    assert parquet_files.read(merged, ["number"]).num_rows == 6
    first.unlink()
    second.unlink()
    scanned = parquet_files.scan_day(folder, ROWS.schema, columns=["number"], filter_=None)
    assert [row["number"] for batch in scanned for row in batch.to_pylist()] == [1, 2, 3, 1, 2, 3]
