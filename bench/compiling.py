"""C programs of the bench, compiled when they are first needed."""

import shutil
import subprocess
from pathlib import Path

_FOLDER = Path(__file__).parent


class CompilerMissingError(RuntimeError):
    """There is no C compiler."""


def compiled(name: str) -> Path:
    """The program of bench/<name>.c; built when its source is newer."""
    source, binary = _FOLDER / f"{name}.c", _FOLDER / "build" / name
    if binary.exists() and binary.stat().st_mtime >= source.stat().st_mtime:
        return binary
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise CompilerMissingError("no gcc: the raw cases need a C compiler (Debian: gcc libc6-dev)")
    binary.parent.mkdir(exist_ok=True)
    subprocess.run([compiler, "-O2", "-std=gnu11", "-Wall", "-o", str(binary), str(source)], check=True)
    return binary
