"""Text for Java and Spark: options that Spark splits at spaces, and file names for Java."""

import os
from collections.abc import Iterable
from pathlib import Path


class UnreadableName(OSError):
    """Java can't open this file by its name."""


def option_string(options: Iterable[str]) -> str:
    """Options of a Java process as one setting: Spark splits it at white space, and knows quotes and backslashes."""
    return " ".join(_quoted(each) for each in options)


def java_path(path: Path) -> str:
    """An absolute path for Java and Spark: never a URI, whose escapes Spark does not decode.

    Python encodes a name by its locale, Java always as UTF-8, as we start it.
    """
    name = os.fsencode(path.absolute())
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableName(f"{path}: the name is not UTF-8, so Java can't open it; rename the folder") from None


def _quoted(option: str) -> str:
    if option and not set(option) & set("\"'\\") and not any(each.isspace() for each in option):
        return option
    return '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'
