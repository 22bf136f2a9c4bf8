"""Which names a topic may have. The name becomes a folder and a node of the store, so nothing else may pass."""

_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_LENGTH_MAX = 249

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})


def problem_with(name: str) -> str | None:
    """Why `name` is illegal, or None when it is fine."""
    if not name:
        return "a topic name can't be empty"
    if name in (".", ".."):
        return f"a topic can't be called {name!r}"
    if len(name) > _LENGTH_MAX:
        return f"a topic name has at most {_LENGTH_MAX} characters, this one has {len(name)}"
    if not _LEGAL.issuperset(name):
        return f"topic {name!r}: only letters, digits, '.', '_' and '-' are allowed"
    return None


def colliding(name: str, other: str) -> str:
    """What keeps `name` from being made beside `other`."""
    if metric_name(name) == metric_name(other):
        return f"topic {name!r} differs from {other!r} only in '.' and '_', which metrics can't tell apart"
    return f"topic {name!r} and {other!r} would be one folder: the broker's file system ignores upper and lower case"


def metric_name(name: str) -> str:
    """What metrics call a topic: two names that differ only in '.' against '_' are the same there."""
    return name.replace(".", "_")
