"""Which of Ottla's extras brings a library, and the error message where it is not installed.

Only code that needs an extra imports it; pyproject.toml declares the extras themselves.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# What is imported -> the smallest extra that brings it.
EXTRA_OF: Final = {
    "cassandra": "cassandra",
    "google": "spark",  # protobuf
    "matplotlib": "pipeline",
    "msgspec": "pipeline",
    "numpy": "columns",
    "pandas": "spark",
    "phonenumbers": "pipeline",
    "py4j": "spark",
    "pyarrow": "columns",
    "pyspark": "spark",
    "pytest": "pytest",
    "starlette": "console",
    "uvicorn": "console",
}


class ExtraMissing(ModuleNotFoundError):
    """A library of an extra is not installed; the message says which, and how to install it."""


@contextmanager
def needs_extra(what: str, *extras: str) -> Iterator[None]:
    """For imports: a library that is missing is reported as the extras that `what` needs."""
    try:
        yield
    except ExtraMissing:
        raise
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in EXTRA_OF:
            raise  # not a matter of what is installed
        raise ExtraMissing(_words(what, library, extras), name=error.name) from error


def _words(what: str, library: str, extras: tuple[str, ...]) -> str:
    # True for a clone, for a wheel, and for a release.
    listed = f"extra {extras[0]}" if len(extras) == 1 else f"extras {' and '.join(extras)}"
    return f"{what} needs {library}: install Ottla with its {listed} (in a clone: pip install '.[{','.join(extras)}]')"
