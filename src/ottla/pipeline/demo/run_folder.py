"""The folder of a run: `data/run-<when>`, claimed while the run lasts. Removes folders of earlier runs but the last.

A name never ends with a dash and a number, like that of a partition: a broker may have the folder `data`.
"""

import errno
import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# In UTC, so that they sort; with a number if there are several in a second.
_NAME: Final = re.compile(r"run-(\d{8}T\d{6}Z)(?:\.(\d+))?(?:\.log)?")
# The old form, in local time: it counts as earlier than all others.
_FORMER_NAME: Final = re.compile(r"run-(\d{8}-\d{6})(?:-(\d+))?(?:\.log)?")
_LOCK_FILE: Final = ".lock"
_KEPT: Final = 1  # beside the new one


def new_run_folder(parent: Path) -> Path:
    """A name that no other run has. NotADirectoryError for a parent that is a file, or a link to nothing."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(parent)) from None
    name = time.strftime("run-%Y%m%dT%H%M%SZ", time.gmtime())
    folder = parent / name
    number = 1
    while True:
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            number += 1
            folder = parent / f"{name}.{number}"


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Other runs don't remove it until the end of the block, or until the process ends in any way."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / _LOCK_FILE, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def remove_earlier(parent: Path, *, new: Path) -> list[Path]:
    """Removes runs before the last one, except running ones, and returns them. Leaves other names alone."""
    ages = {each: age for each in parent.iterdir() if each != new and (age := _age(each.name)) is not None}
    found = sorted(ages, key=ages.__getitem__, reverse=True)
    folders = [each for each in found if each.is_dir()]
    kept = {each.name for each in folders[:_KEPT]}
    removed = []
    for each in found:
        if each.name.removesuffix(".log") in kept:
            continue
        if each.is_file():
            each.unlink(missing_ok=True)
        elif _is_free(each):
            shutil.rmtree(each, ignore_errors=True)
            removed.append(each)
    return removed


def _age(name: str) -> tuple[bool, str, int] | None:
    """The sort key; None for a name that is not a run's."""
    found = _NAME.fullmatch(name) or _FORMER_NAME.fullmatch(name)
    return None if found is None else (found.re is _NAME, found[1], int(found[2] or 1))


def _is_free(folder: Path) -> bool:
    try:
        with open(folder / _LOCK_FILE, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except BlockingIOError:
        return False
    except FileNotFoundError:
        return True
