"""Small files and names that must survive a crash: written under another name, synced, renamed."""

import os
from pathlib import Path

from ottla.core.operating_system import sync_file


def write_whole(path: Path, data: bytes) -> None:
    """The file is the old one or the new one, at every moment and after a crash."""
    beside = path.with_name(path.name + ".new")
    with open(beside, "wb") as file:
        file.write(data)
        file.flush()
        sync_file(file.fileno())
    os.replace(beside, path)
    fsync_folder(path.parent)


def fsync_folder(path: Path) -> None:
    """Make the names in it durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)
