"""File ports with planned steps: where the process ends, its disk is full, or someone else looks at the files."""

import errno
import os
import signal
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from ottla.pipeline.stores.embedded.files import Files


class SteppedFiles(Files):
    """The real file system; before each change `on_step` is called with its number and name.

    Nothing is made durable: that is slow, and shows only when the machine itself goes down.
    """

    def __init__(self, on_step: Callable[[int, str], None]) -> None:
        self.steps = 0
        self._on_step = on_step

    def _step(self, name: str) -> None:
        number, self.steps = self.steps, self.steps + 1
        self._on_step(number, name)

    def write(self, path: Path, data: pa.Buffer) -> None:
        self._step("write")
        super().write(path, data)

    def sync_files(self, paths: Sequence[Path]) -> None:
        self._step("sync")

    def sync_folders(self, paths: Sequence[Path]) -> None:
        self._step("sync")

    def make_folders(self, paths: Iterable[Path]) -> None:
        self._step("make_folders")
        super().make_folders(paths)

    def rename(self, old: Path, new: Path) -> None:
        self._step("rename")
        super().rename(old, new)

    def exchange(self, one: Path, other: Path) -> bool:
        self._step("exchange")
        return super().exchange(one, other)

    def remove_tree(self, path: Path) -> None:
        self._step("remove_tree")
        super().remove_tree(path)

    def commit(self, connection: sqlite3.Connection) -> None:
        self._step("commit")
        super().commit(connection)


class Ended(BaseException):
    """In the place of SIGKILL, for tests within one process: nothing catches it."""


def ending_at(step: int) -> SteppedFiles:
    def on_step(number: int, name: str) -> None:
        if number == step:
            raise Ended(name)

    return SteppedFiles(on_step)


def killing_at(step: int) -> SteppedFiles:
    """The real thing."""

    def on_step(number: int, name: str) -> None:
        if number == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return SteppedFiles(on_step)


class PowerCutFiles(SteppedFiles):
    """Ends at a step, and what was not made durable by then is lost: files are empty."""

    def __init__(self, step: int) -> None:
        self._unsynced: set[Path] = set()

        def on_step(number: int, name: str) -> None:
            if number == step:
                for path in self._unsynced:
                    os.truncate(path, 0)
                raise Ended(name)

        super().__init__(on_step)

    def write(self, path: Path, data: pa.Buffer) -> None:
        super().write(path, data)
        self._unsynced.add(path)

    def sync_files(self, paths: Sequence[Path]) -> None:
        super().sync_files(paths)
        self._unsynced.difference_update(paths)

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        if old in self._unsynced:
            self._unsynced.remove(old)
            self._unsynced.add(new)


def full_at(step: int) -> SteppedFiles:
    """The disk has no room at this step, and again after it."""

    def on_step(number: int, name: str) -> None:
        if number == step and name in ("write", "sync", "make_folders", "rename"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if number == step and name == "commit":
            raise sqlite3.OperationalError("database or disk is full")

    return SteppedFiles(on_step)
