"""The folder of a run: `data/run-<when>`, claimed while the run lasts. Folders of earlier runs go, all but the last.

A name never ends as that of a partition does, with a dash and a number: a broker may be given the folder `data`.
"""

import fcntl
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# By UTC, so that they sort; numbers for more than one in a second.
_NAME: Final = re.compile(r"run-(\d{8}T\d{6}Z)(?:\.(\d+))?(?:\.log)?")
# As they were once, by local time: looked at as earlier than all others.
_FORMER_NAME: Final = re.compile(r"run-(\d{8}-\d{6})(?:-(\d+))?(?:\.log)?")
_LOCK_FILE: Final = ".lock"
_KEPT: Final = 1  # beside the new one


def new_run_folder(parent: Path) -> Path:
    """A name that no other run has."""
    name = time.strftime("run-%Y%m%dT%H%M%SZ", time.gmtime())
    folder = parent / name
    number = 1
    while True:
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            number += 1
            folder = parent / f"{name}.{number}"


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Not to be removed by another run until the end of the block, or of the process however it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / _LOCK_FILE, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def remove_earlier(parent: Path, *, new: Path) -> list[Path]:
    """Runs before the last one, except those that are going on; what was removed. Other names are left alone."""
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
    """To sort by; None for what is no run's."""
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
