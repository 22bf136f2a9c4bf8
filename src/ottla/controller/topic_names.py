"""Which names a topic may have. The name becomes a folder and a node of the store, so nothing else may pass."""

_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_LENGTH_MAX = 249


def problem_with(name: str) -> str | None:
    """Why `name` is illegal, or None when it is fine."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return "Topic name is invalid: '.' or '..' are not allowed"
    if len(name) > _LENGTH_MAX:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {_LENGTH_MAX}"
    if not _LEGAL.issuperset(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


def colliding(name: str, other: str) -> str:
    """What keeps `name` from being made beside `other`."""
    if metric_name(name) == metric_name(other):
        return f"Topic '{name}' collides with existing topic: {other}"
    return f"Topic '{name}' and '{other}' would be one folder: the broker's file system ignores upper and lower case"


def metric_name(name: str) -> str:
    """What metrics call a topic: two names that differ only in '.' against '_' are the same there."""
    return name.replace(".", "_")


def topic_key(name: str) -> str:
    """The same for all names that may collide: in metrics, or where the file system ignores case."""
    return metric_name(name).lower()
