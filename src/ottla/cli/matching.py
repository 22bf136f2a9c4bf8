"""Which topics or groups the arguments of a command mean: names, or shell patterns such as `orders-*`.

A pattern that matches nothing, or a name that doesn't exist, becomes a problem.
"""

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

from ottla.cli.failures import nearest


class Matched(NamedTuple):
    """Names in the order of the command line, and a message for each argument that matches nothing."""

    names: list[str]
    problems: list[str]


def is_pattern(word: str) -> bool:
    return any(character in word for character in "*?[")


def match(words: Iterable[str], known: Collection[str], *, kind: str, hidden: Collection[str] = ()) -> Matched:
    """A pattern never matches `hidden` names: internal topics when deleting."""
    names: dict[str, None] = {}
    problems = []
    for word in words:
        if word in known:
            names[word] = None
        elif is_pattern(word):
            found = sorted(name for name in known if fnmatchcase(name, word) and name not in hidden)
            if not found:
                problems.append(f"{kind} {word}: nothing matches this pattern")
            names.update(dict.fromkeys(found))
        else:
            problems.append(f"{kind} {word}: no such {kind}{nearest(word, known)}")
    return Matched(list(names), problems)
