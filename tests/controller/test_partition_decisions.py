"""What becomes of a partition, whatever the cluster looks like: what must hold of every decision."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.controller.partition_decisions import Strategy, decide_partition
from ottla.controller.state import ClusterState, StoredBrokerConfigs
from ottla.core.cluster import NO_LEADER, BrokerInfo, PartitionState, TopicImage
from ottla.core.types import NO_LEADER_EPOCH, TopicPartition

ORDERS = TopicPartition("orders", 0)
BROKERS = range(1, 6)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[ClusterState, PartitionState]:
    replicas = tuple(draw(st.permutations(BROKERS)))[: draw(st.integers(1, 4))]
    isr = tuple(draw(st.lists(st.sampled_from(replicas), unique=True, min_size=1)))
    leader = draw(st.sampled_from((*isr, NO_LEADER)))
    state = PartitionState(leader, draw(st.integers(0, 9)), isr, replicas, draw(st.integers(0, 99)))
    if draw(st.booleans()) and draw(st.booleans()):
        state = PartitionState(NO_LEADER, NO_LEADER_EPOCH, (), replicas)
    live = draw(st.lists(st.sampled_from(BROKERS), unique=True))
    cluster = ClusterState(
        [TopicImage("orders", bytes(16), {}, {0: state})],
        StoredBrokerConfigs({}, {}),
        brokers=[BrokerInfo(broker_id, (), None, 1) for broker_id in live],
    )
    if live:
        cluster.shutting_down.update(draw(st.sets(st.sampled_from(live))))
        for broker_id in draw(st.lists(st.sampled_from(live), max_size=1)):
            cluster.note_replica(broker_id, ORDERS, is_offline=True)
    return cluster, state


@given(clusters(), st.sampled_from(Strategy), st.booleans())
def test_decision_is_safe(
    drawn: tuple[ClusterState, PartitionState], strategy: Strategy, is_unclean_allowed: bool
) -> None:
    cluster, state = drawn
    decided = decide_partition(ORDERS, state, cluster, strategy, is_unclean_allowed=is_unclean_allowed)
    if decided is None:
        return
    assert decided != state
    assert decided.replicas == state.replicas
    assert set(decided.isr) <= set(state.replicas)
    assert decided.isr, "in-sync replicas never run out: one that has all the data must be known"
    has_new_leader = decided.leader != state.leader
    assert decided.leader_epoch == state.leader_epoch + has_new_leader
    if decided.leader == NO_LEADER:
        assert decided.isr == state.isr
        assert not any(cluster.is_online(replica, ORDERS) for replica in state.isr)
    else:
        assert decided.leader in decided.isr
        assert cluster.is_online(decided.leader, ORDERS)
        may_lose = is_unclean_allowed or strategy is Strategy.UNCLEAN or state.leader_epoch == NO_LEADER_EPOCH
        assert may_lose or set(decided.isr) <= set(state.isr)


@given(clusters(), st.sampled_from(Strategy), st.booleans())
def test_decided_partition_is_in_order(
    drawn: tuple[ClusterState, PartitionState], strategy: Strategy, is_unclean_allowed: bool
) -> None:
    """Applied and asked again, nothing is to be done, at the latest at the second time: no election without end."""
    cluster, state = drawn
    for _ in range(3):
        decided = decide_partition(ORDERS, state, cluster, strategy, is_unclean_allowed=is_unclean_allowed)
        if decided is None:
            return
        state = decided
    raise AssertionError(f"{state} is never in order")


@given(clusters())
def test_partition_is_led_when_an_in_sync_replica_is_online(drawn: tuple[ClusterState, PartitionState]) -> None:
    cluster, state = drawn
    decided = decide_partition(ORDERS, state, cluster, Strategy.AUTOMATIC, is_unclean_allowed=False) or state
    able = [replica for replica in state.isr if cluster.is_online(replica, ORDERS)]
    if able:
        assert decided.leader in able
    elif state.leader_epoch != NO_LEADER_EPOCH and state.leader not in cluster.shutting_down:
        assert decided.leader == NO_LEADER
