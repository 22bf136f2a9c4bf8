"""The file port of the embedded store: every change on disk goes through it, one method for each step.

So tests can end the process, or fill the disk, at each step. Knows nothing of tables.
"""

import fcntl
import itertools
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa

from ottla.core.operating_system import exchange_names, sync_file

_SYNC_THREADS: Final = 8


class Files:
    """The machine's own file system."""

    def write(self, path: Path, data: pa.Buffer) -> None:
        """A new file, not durable yet."""
        with open(path, "wb", buffering=0) as file:
            view = memoryview(data)
            while len(view):
                view = view[file.write(view) :]

    def sync_files(self, paths: Sequence[Path]) -> None:
        """Make their contents durable, in parallel: the file system commits for all of them at once."""
        if len(paths) == 1:
            _sync(paths[0])
        elif paths:
            with ThreadPoolExecutor(min(_SYNC_THREADS, len(paths))) as threads:
                list(threads.map(_sync, paths))

    def sync_folders(self, paths: Sequence[Path]) -> None:
        """Make the names in them durable."""
        self.sync_files(paths)

    def make_folders(self, paths: Iterable[Path]) -> None:
        """With their parents; all of these names are durable when this returns."""
        parents = set()
        for path in paths:
            missing = list(itertools.takewhile(lambda folder: not folder.exists(), (path, *path.parents)))
            for folder in reversed(missing):
                folder.mkdir(exist_ok=True)
                parents.add(folder.parent)
        self.sync_folders(sorted(parents))

    def rename(self, old: Path, new: Path) -> None:
        """Replaces an existing file."""
        os.rename(old, new)

    def exchange(self, one: Path, other: Path) -> bool:
        """Exchanges both names at once; False where the file system cannot do that."""
        return exchange_names(str(one), str(other))

    def remove_tree(self, path: Path) -> None:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def commit(self, connection: sqlite3.Connection) -> None:
        connection.execute("COMMIT")

    @contextmanager
    def locked(self, path: Path) -> Iterator[None]:
        """Holds the lock of this file, which one process at a time can have."""
        with open(path, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)
