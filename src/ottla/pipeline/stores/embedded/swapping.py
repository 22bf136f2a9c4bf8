"""Swaps two sets of tables: a shadow becomes the store, and the store a shadow.

Several names cannot change in one step, so the swap writes its plan first. Every step can be repeated, and the next
writer of the store finishes a swap that was cut short.
"""

import json
import re
from pathlib import Path
from typing import Final

import pyarrow as pa

from ottla.pipeline.stores.embedded.files import Files
from ottla.pipeline.stores.port import StoreError

LOGS: Final = "logs"
SCRATCH: Final = ".writing"
SERVING: Final = "serving.sqlite"
_SHADOWS: Final = "shadows"
_PLAN: Final = "swap.json"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def shadow_folder(folder: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a name for a shadow: letters, digits, _ and -, at most 64")
    return folder / _SHADOWS / name


def check(folder: Path, name: str) -> None:
    """StoreError if the swap can't be done."""
    shadow, before = shadow_folder(folder, name), shadow_folder(folder, f"{name}-before")
    if not (shadow / SERVING).exists():
        raise StoreError(f"{shadow} holds no tables: there is no shadow {name} to swap in")
    if before.exists():
        raise StoreError(f"{before} is there from an earlier swap; remove it, or name the replay otherwise")


def swap(folder: Path, name: str, files: Files) -> None:
    """After `check`. The caller has closed both databases, so that each is one file."""
    plan = folder / f".{_PLAN}"
    files.write(plan, pa.py_buffer(json.dumps({"shadow": name}).encode()))
    files.sync_files([plan])
    files.rename(plan, folder / _PLAN)
    files.sync_folders([folder])
    finish_swap(folder, files)


def is_under_way(folder: Path) -> bool:
    return (folder / _PLAN).exists()


def finish_swap(folder: Path, files: Files) -> None:
    """Does nothing if no swap is in progress."""
    plan = folder / _PLAN
    if not plan.exists():
        return
    name = json.loads(plan.read_text())["shadow"]
    shadow, before = shadow_folder(folder, name), shadow_folder(folder, f"{name}-before")
    files.make_folders([before / SCRATCH])
    for part in (LOGS, SERVING):
        # Old parts out first, then new ones in: a part that is out already is not moved again.
        if not (before / part).exists():
            files.rename(folder / part, before / part)
        if not (folder / part).exists():
            files.rename(shadow / part, folder / part)
    files.sync_folders([path for path in (folder, shadow, before) if path.exists()])
    files.remove_tree(shadow)
    files.remove_tree(plan)
    files.sync_folders([folder])
