"""What requests mean, by their bytes: clients repeat themselves, and a lookup is faster than decoding."""

from typing import Generic, TypeVar

_ENTRIES_MAX = 20_000  # some MB; then all are forgotten and learnt again

EntryT = TypeVar("EntryT")


class RequestMemo(Generic[EntryT]):
    """Owned by one handler, which puts into an entry what shows whether it is still valid. Event loop only.

    `by_version[version].get(key)` finds an entry without a call in Python. Each version has its own entries, because
    the same bytes could mean something else in another one. Bounded: in entries of all versions together, and in the
    bytes of a key.
    """

    __slots__ = ("_entries_max", "_key_bytes_max", "by_version")

    def __init__(self, *, versions: int, key_bytes_max: int, entries_max: int = _ENTRIES_MAX) -> None:
        self.by_version: list[dict[bytes, EntryT]] = [{} for _ in range(versions)]
        self._key_bytes_max = key_bytes_max
        self._entries_max = entries_max

    @property
    def count(self) -> int:
        return sum(map(len, self.by_version))

    def learn(self, version: int, key: bytes, entry: EntryT) -> bool:
        """Remember `entry`, in place of an older one with this key; False if the key is too long for that."""
        if len(key) > self._key_bytes_max:
            return False
        entries = self.by_version[version]
        if key not in entries and self.count >= self._entries_max:
            for each in self.by_version:
                each.clear()
        entries[key] = entry
        return True

    def forget(self, version: int, key: bytes) -> None:
        """The entry is no longer valid: release what it refers to."""
        self.by_version[version].pop(key, None)
