"""A timer of a shard that runs whatever it was last given: a session's end, the end of a group's phase."""

from collections.abc import Callable

from ottla.coordinator.ports import NOTHING, Outcome, ShardTimer


class ActionTimer(ShardTimer):
    """Owned by the member or the group whose time it measures, which cancels it when it goes."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], Outcome] | None = None) -> None:
        super().__init__()
        self.action = action

    def expire(self) -> Outcome:
        return NOTHING if self.action is None else self.action()
