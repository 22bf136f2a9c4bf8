"""Temporary folders that a process could not remove because it was killed: the next one that makes such a folder does.

A folder is in use as long as the process lives that has claimed it, which a lock on a file in it shows: the system
takes the lock back however the process ends. A folder that nobody has claimed is left alone.
"""

import fcntl
import os
import shutil
from pathlib import Path
from typing import Final

_LOCK_FILE: Final = ".in-use"


def claim(folder: Path) -> None:
    """For as long as this process lives."""
    # Locked before it has its name: at no moment it looks as if its process had gone.
    unnamed = folder / f"{_LOCK_FILE}.new"
    descriptor = os.open(unnamed, os.O_WRONLY | os.O_CREAT, 0o600)  # open until the process ends
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.replace(unnamed, folder / _LOCK_FILE)


def remove_abandoned(parent: Path, *, prefix: str) -> list[Path]:
    """Our own folders with such names whose processes are gone; what was removed."""
    removed = []
    for folder in parent.glob(f"{prefix}*"):
        if _is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder)
    return removed


def _is_abandoned(folder: Path) -> bool:
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return False
        with open(folder / _LOCK_FILE, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False  # in use, never claimed, or gone just now
    return True
