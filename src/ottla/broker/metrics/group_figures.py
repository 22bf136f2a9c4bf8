"""What the group coordinator has, summed over the shards that are served now."""

from ottla.coordinator.group.coordinator import GroupCoordinator


class CoordinatorFigures:
    """The figures of one coordinator. A shard that is unloaded takes its figures with it."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def groups_by_state(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for shard in self._coordinator.shards():
            for state, count in shard.groups.count_by_state().items():
                counts[state.value] = counts.get(state.value, 0) + count
        return counts

    @property
    def offset_count(self) -> int:
        return sum(len(shard.offsets) for shard in self._coordinator.shards())

    @property
    def rebalance_count(self) -> int:
        return sum(shard.groups.rebalances_finished for shard in self._coordinator.shards())
