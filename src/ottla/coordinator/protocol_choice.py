"""Which protocols all members of a group support, counted as they come and go, and which of them they choose."""

from collections.abc import Iterable

from ottla.coordinator.member import Member


class ProtocolChoice:
    """Owned by its `Group`, which says who comes and who goes."""

    __slots__ = ("_members", "_supporters")

    def __init__(self) -> None:
        self._members = 0
        self._supporters: dict[str, int] = {}  # by protocol name; none of them is 0

    def add(self, protocols: Iterable[str]) -> None:
        supporters = self._supporters
        for name in protocols:
            supporters[name] = supporters.get(name, 0) + 1
        self._members += 1

    def remove(self, protocols: Iterable[str]) -> None:
        supporters = self._supporters
        for name in protocols:
            count = supporters[name] - 1
            if count:
                supporters[name] = count
            else:
                del supporters[name]
        self._members -= 1

    def has_common(self, protocols: Iterable[str]) -> bool:
        """Whether every member supports one of these; of no members that is true."""
        return any(self._supporters.get(name, 0) == self._members for name in protocols)

    def choose(self, members: Iterable[Member]) -> str:
        """Each member votes for the first of its protocols that all support; the most votes win."""
        candidates = {name for name, count in self._supporters.items() if count == self._members}
        votes: dict[str, int] = {}
        for member in members:
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=votes.__getitem__)
