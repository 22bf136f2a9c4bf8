"""The folder of one session: a plain name that Java, Spark and shells take as it is, on a disk that programs run from.

Java unpacks native libraries into it and workers are started by a script in it, neither of which works on a disk that
is mounted noexec. The process removes it when it ends; the next session removes that of a process that was killed. What
a user wants kept is never here, only linked to from here.
"""

import atexit
import fcntl
import mmap
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

# Neither separates anything in a setting, a path or a shell, nor needs an escape in a URI.
_PLAIN: Final = re.compile(r"[A-Za-z0-9/._-]+")
_PREFIX: Final = "ottla-spark-"
_LOCK_FILE: Final = ".in-use"


class NoFolder(OSError):
    """No folder for temporary files can be written to; the message says which were tried."""


def make_session_folder() -> Path:
    parent = best_parent(usual_parents())
    remove_abandoned(parent, prefix=_PREFIX)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    claim(folder)
    # Registered before Spark's own handler is, so it runs after it.
    atexit.register(_remove, folder, made_by=os.getpid())
    return folder


def claim(folder: Path) -> None:
    """Mark it as in use for as long as this process lives: the system drops the lock however the process ends."""
    # Locked before it has its name: it never looks as if its process were gone.
    unnamed = folder / f"{_LOCK_FILE}.new"
    descriptor = os.open(unnamed, os.O_WRONLY | os.O_CREAT, 0o600)  # open until the process ends
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.replace(unnamed, folder / _LOCK_FILE)


def remove_abandoned(parent: Path, *, prefix: str) -> list[Path]:
    """Remove our own folders with such names whose processes are gone, and return them. Unclaimed ones stay."""
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


def usual_parents() -> list[Path]:
    """Where temporary files go; else beside the Python that runs us, whose disk must be one that programs run from."""
    temporary = [os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")]
    named = [Path(each) for each in (*temporary, "/tmp", "/var/tmp") if each]
    cache = os.environ.get("XDG_CACHE_HOME")
    home = os.path.expanduser("~")  # stays "~" for a user without a home
    caches = [Path(cache)] if cache else [Path(home) / ".cache"] if home != "~" else []
    return [*named, Path(sys.prefix), *caches]


def best_parent(folders: Iterable[Path]) -> Path:
    """The first from which programs run and whose name is plain; failing that, the first that can be written to."""
    writable = [each.resolve() for each in folders if is_writable(each)]
    if not writable:
        raise NoFolder(f"no folder for temporary files can be written to; tried {', '.join(map(str, folders))}")
    runnable = [each for each in writable if runs_programs(each)]
    plain = [each for each in runnable if is_plain(each)]
    return (plain or runnable or writable)[0]


def is_plain(path: Path) -> bool:
    return _PLAIN.fullmatch(str(path)) is not None


def is_writable(folder: Path) -> bool:
    """By trying: what permissions say is not all, a disk may be full or mounted read-only."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0")
            file.flush()
    except OSError:
        return False
    return True


def runs_programs(folder: Path) -> bool:
    """By trying: a page of a file in it is mapped to be run, as a native library is."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.truncate(mmap.PAGESIZE)
        try:
            mmap.mmap(file.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_EXEC).close()
        except OSError:
            return False
    return True


def plain_name(path: Path, session_folder: Path, *, link: str) -> Path:
    """The path itself if its name is plain, else a link to it in the session's folder."""
    if is_plain(path):
        return path
    alias = session_folder / link
    alias.symlink_to(path)
    return alias


def _remove(folder: Path, *, made_by: int) -> None:
    if os.getpid() == made_by:  # a fork has inherited the handler, not the folder
        shutil.rmtree(folder, ignore_errors=True)
