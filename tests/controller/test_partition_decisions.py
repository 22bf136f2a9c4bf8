"""What becomes of a partition, whatever the cluster looks like: what must hold of every decision."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.controller.partition_decisions import Strategy, decide_partition
from ottla.controller.state import ClusterState, StoredBrokerConfigs
from ottla.core.cluster import NO_LEADER, BrokerInfo, LossyReplica, PartitionState, TopicImage
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


def _cluster_of(state: PartitionState, *live: int) -> ClusterState:
    return ClusterState(
        [TopicImage("orders", bytes(16), {}, {0: state})],
        StoredBrokerConfigs({}, {}),
        brokers=[BrokerInfo(broker_id, (), None, 1) for broker_id in live],
    )


def _decide(state: PartitionState, *live: int, min_isr: int = 2) -> PartitionState | None:
    cluster = _cluster_of(state, *live)
    return decide_partition(ORDERS, state, cluster, Strategy.AUTOMATIC, is_unclean_allowed=False, min_isr=min_isr)


def test_replicas_that_leave_below_the_minimum_stay_eligible() -> None:
    state = PartitionState(1, 3, (1, 2), (1, 2, 3))
    assert _decide(state, 1, 3) == state._replace(isr=(1,), eligible=(2,))
    assert _decide(state, 1, 3, min_isr=1) == state._replace(isr=(1,))


def test_eligible_replica_leads_when_no_in_sync_one_is_online() -> None:
    state = PartitionState(1, 3, (1,), (1, 2, 3), 7, eligible=(2,))
    assert _decide(state, 2, 3) == PartitionState(2, 4, (2,), (1, 2, 3), 7, eligible=(1,))
    offline = _decide(state, 3)
    assert offline == state._replace(leader=NO_LEADER, leader_epoch=4)


def test_least_lossy_replica_leads_only_when_all_that_had_everything_have_said_what_is_left() -> None:
    lossy = (LossyReplica(1, 3, 90), LossyReplica(2, 4, 50), LossyReplica(3, 4, 60))
    state = PartitionState(NO_LEADER, 5, (), (1, 2, 3), 7, eligible=(), lossy=lossy)
    assert _decide(state, 1, 2, 3) == PartitionState(3, 6, (3,), (1, 2, 3), 7, eligible=())
    assert _decide(state, 1, 2) is None
    assert _decide(state._replace(isr=(3,), lossy=lossy[:2]), 1, 2) is None
    assert _decide(state._replace(eligible=(3,), lossy=lossy[:2]), 1, 2) is None


@given(clusters(), st.integers(1, 3), st.data())
def test_no_replica_that_had_everything_is_forgotten(
    drawn: tuple[ClusterState, PartitionState], min_isr: int, data: st.DataObject
) -> None:
    """Below the minimum all that had everything before the decision are in sync or eligible after it."""
    cluster, state = drawn
    others = [replica for replica in state.replicas if replica not in state.isr]
    if others and len(state.isr) < min(min_isr, len(state.replicas)):
        state = state._replace(eligible=tuple(data.draw(st.lists(st.sampled_from(others), unique=True))))
    decided = decide_partition(ORDERS, state, cluster, Strategy.AUTOMATIC, is_unclean_allowed=False, min_isr=min_isr)
    if decided is None or state.leader_epoch == NO_LEADER_EPOCH:
        return
    had_all = {*state.isr, *(state.eligible or ())}
    have_all = {*decided.isr, *(decided.eligible or ())}
    assert have_all <= had_all
    assert not set(decided.isr) & set(decided.eligible or ())
    if len(decided.isr) < min(min_isr, len(state.replicas)):
        assert have_all == had_all
    else:
        assert not decided.eligible or decided.leader == NO_LEADER
