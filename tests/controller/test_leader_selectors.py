"""Who leads next: what holds for each selector, whatever the cluster looks like."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.controller.leader_selectors import (
    Selection,
    select_controlled_shutdown,
    select_offline,
    select_preferred,
    select_reassigned,
    select_same,
)

BROKERS = range(1, 7)
replica_lists = st.permutations(BROKERS).flatmap(lambda all_: st.integers(1, 5).map(lambda count: tuple(all_[:count])))
some_brokers = st.frozensets(st.sampled_from(BROKERS))


@st.composite
def partitions(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Replicas, and the in-sync ones among them in any order."""
    replicas = draw(replica_lists)
    isr = draw(st.lists(st.sampled_from(replicas), unique=True, min_size=1))
    return replicas, tuple(isr)


@given(partitions(), some_brokers)
def test_clean_election_takes_the_first_in_sync_replica_that_is_online(
    partition: tuple[tuple[int, ...], tuple[int, ...]], online: frozenset[int]
) -> None:
    replicas, isr = partition
    able = [replica for replica in replicas if replica in isr and replica in online]
    selection = select_offline(replicas, isr, online=online, is_unclean_allowed=False)
    if not able:
        assert selection is None
    else:
        assert selection == Selection(able[0], tuple(replica for replica in isr if replica in online))


@given(partitions(), some_brokers)
def test_unclean_election_loses_nothing_while_an_in_sync_replica_is_online(
    partition: tuple[tuple[int, ...], tuple[int, ...]], online: frozenset[int]
) -> None:
    replicas, isr = partition
    clean = select_offline(replicas, isr, online=online, is_unclean_allowed=False)
    unclean = select_offline(replicas, isr, online=online, is_unclean_allowed=True)
    if clean is not None:
        assert unclean == clean
    elif online.isdisjoint(replicas):
        assert unclean is None
    else:
        assert unclean is not None
        assert unclean.leader in online
        assert unclean.isr == (unclean.leader,)


@given(partitions(), some_brokers, replica_lists)
def test_reassigned_partition_is_led_by_a_target_that_is_in_sync(
    partition: tuple[tuple[int, ...], tuple[int, ...]], online: frozenset[int], targets: tuple[int, ...]
) -> None:
    _, isr = partition
    selection = select_reassigned(targets, isr, online=online)
    able = [target for target in targets if target in isr and target in online]
    assert selection == (Selection(able[0], isr) if able else None)


@given(partitions(), some_brokers)
def test_preferred_leader_is_the_first_replica_or_nobody(
    partition: tuple[tuple[int, ...], tuple[int, ...]], online: frozenset[int]
) -> None:
    replicas, isr = partition
    can_lead = replicas[0] in isr and replicas[0] in online
    assert select_preferred(replicas, isr, online=online) == (Selection(replicas[0], isr) if can_lead else None)


@given(partitions(), some_brokers, some_brokers)
def test_broker_that_shuts_down_leaves_leadership_and_in_sync_replicas(
    partition: tuple[tuple[int, ...], tuple[int, ...]], online: frozenset[int], shutting_down: frozenset[int]
) -> None:
    replicas, isr = partition
    selection = select_controlled_shutdown(replicas, isr, online=online, shutting_down=shutting_down)
    if selection is None:
        assert not (online - shutting_down).intersection(isr)
    else:
        assert selection.leader in online - shutting_down
        assert selection.leader in selection.isr
        assert shutting_down.isdisjoint(selection.isr)
        assert set(selection.isr) <= set(isr)


@given(partitions(), st.sampled_from(BROKERS))
def test_no_op_changes_nothing(partition: tuple[tuple[int, ...], tuple[int, ...]], leader: int) -> None:
    _, isr = partition
    assert select_same(leader, isr) == (Selection(leader, isr) if leader in isr else None)
