"""Another Spark's Python packages in PYTHONPATH, where Spark's own instructions put them: we don't run on those.

Imports neither pyspark nor py4j, so that it can run before they are imported.
"""

import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

# Set in a process that `spark-submit` has started: then we run on that Spark.
GATEWAY: Final = "PYSPARK_GATEWAY_PORT"
_PACKAGES: Final = ("pyspark", "py4j")


def set_aside_foreign_spark() -> None:
    """Remove it from this process's module path, if pyspark is installed with us too. For our own commands."""
    if GATEWAY in os.environ or "pyspark" in sys.modules:
        return
    named = set(os.environ.get("PYTHONPATH", "").split(os.pathsep))
    kept = [each for each in sys.path if each not in named or not holds_spark(Path(each))]
    if len(kept) < len(sys.path) and all(PathFinder.find_spec(name, kept) is not None for name in _PACKAGES):
        sys.path[:] = kept


def holds_spark(entry: Path) -> bool:
    """Whether an entry of a module path holds packages of Spark."""
    if entry.suffix == ".zip":
        return entry.name.startswith(_PACKAGES)
    return any(os.path.isfile(entry / name / "__init__.py") for name in _PACKAGES)
