"""The Python of Spark's workers: this one, started by a small script that removes Spark's zips from its path.

Spark puts its own package before all others as a zip without compiled modules: each worker would compile it again,
which takes three times as long as starting one. A worker has ten seconds to start; a busy machine would need more.
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
    """Writes the script into this folder. For workers on this machine, where the same package is installed."""
    script = folder / "python"
    script.write_bytes(os.fsencode(_SCRIPT.format(python=shlex.quote(python))))
    script.chmod(0o755)
    return script
