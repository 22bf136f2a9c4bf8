"""The Python that Spark starts its workers with: this one, by a small script that takes Spark's zips out of its way.

Spark puts its own package before all others as a zip, in which nothing is compiled ahead: each worker would compile it
anew, three times the work of starting one. A worker has ten seconds to start, which a busy machine needs then.
"""

import os
import shlex
import sys
from pathlib import Path
from typing import Final

_SCRIPT: Final = """\
#!/bin/sh
set -f
kept=
IFS=:
for each in $PYTHONPATH; do
    case $each in
        */python/lib/pyspark.zip | */python/lib/py4j-*.zip) ;;
        *) kept="$kept${{kept:+:}}$each" ;;
    esac
done
export PYTHONPATH="$kept"
exec {python} "$@"
"""


def make_worker_python(folder: Path, python: str = sys.executable) -> Path:
    """The script, in this folder. For workers of this machine, where the same package is installed."""
    script = folder / "python"
    script.write_bytes(os.fsencode(_SCRIPT.format(python=shlex.quote(python))))
    script.chmod(0o755)
    return script
