"""Builds the C kernel (src/ottla/records/_kernel.c) into the package where a C compiler and Python's headers are.

An install never fails for want of them: it goes on without the kernel: slower, and the broker does not look inside
batches unless it is told to (`ottla.produce.validate.records`).
`OTTLA_KERNEL=off` leaves it out on purpose.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "src/ottla/records/_kernel.c"
# The limited API of the oldest Python that is supported: one file serves all that follow.
TARGET_NAME = "_kernel.abi3.so"
ABI_TAG = "cp311-abi3"
FLAGS = ["-O3", "-std=c11", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing"]


class KernelBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Hatchling makes one for each wheel; an editable install gets the kernel beside its source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        source = Path(self.root) / SOURCE
        self._built_in: str | None = None
        if version == "editable":
            target = source.with_name(TARGET_NAME)
        else:
            self._built_in = tempfile.mkdtemp()
            target = Path(self._built_in) / TARGET_NAME
        reason = build_kernel(source, target)
        if reason is not None:
            target.unlink(missing_ok=True)  # one of an older source
            self.app.display_warning(f"ottla is installed without its C kernel: {reason}")
            return
        if version != "editable":
            build_data["pure_python"] = False
            build_data["tag"] = f"{ABI_TAG}-{_platform_tag()}"
            build_data["force_include"][str(target)] = f"ottla/records/{TARGET_NAME}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._built_in is not None:
            shutil.rmtree(self._built_in, ignore_errors=True)


def build_kernel(source: Path, target: Path) -> str | None:
    """Compile; None when it was done, else why not."""
    if os.environ.get("OTTLA_KERNEL", "on") == "off":
        return "OTTLA_KERNEL=off"
    if sys.implementation.name != "cpython" or os.name != "posix":
        return f"it is for CPython on POSIX systems, this is {sys.implementation.name} on {os.name}"
    include = sysconfig.get_paths()["include"]
    if not (Path(include) / "Python.h").is_file():
        return f"Python's headers are not in {include} (Debian and Ubuntu: apt install python3-dev)"
    compiler = _compiler()
    if compiler is None:
        return "no C compiler in PATH (cc, gcc, clang; or name one in CC)"
    link = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    # Put in place when it is whole: a process that has the old one mapped must not see it change.
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    command = [*compiler, *FLAGS, *link, f"-I{include}", str(source), "-o", str(unfinished)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            return f"{shlex.join(command)} failed:\n{done.stderr[-2000:]}"
        unfinished.replace(target)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{shlex.join(command)}: {error}"
    finally:
        unfinished.unlink(missing_ok=True)
    return None


def _compiler() -> list[str] | None:
    for candidate in (os.environ.get("CC"), "cc", "gcc", "clang"):
        words = shlex.split(candidate) if candidate else []
        if words and shutil.which(words[0]):
            return words
    return None


def _platform_tag() -> str:
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
