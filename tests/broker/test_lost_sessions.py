"""Brokers whose session in the coordination store ends while they serve."""

from ottla.coordination import paths
from ottla.testing.simulation.cluster import SimulatedCluster
from ottla.testing.simulation.process import ProcessState

GONE_S = 60


def test_broker_outlives_a_store_that_goes_away_while_it_registers_anew() -> None:
    cluster = SimulatedCluster(1, brokers=2)
    cluster.start()
    broker = cluster.brokers[2]
    core = broker.core
    assert core is not None
    first_epoch = core.registration.epoch
    cluster.expire_session(2)
    cluster.run_until(lambda: core.registration._again is not None, within_s=10)
    cluster.ensemble.cut(broker.name)
    cluster.run_for(GONE_S)
    assert broker.state is ProcessState.RUNNING
    cluster.ensemble.restore(broker.name)
    cluster.run_until(lambda: core.registration.epoch > first_epoch, within_s=30)
    assert broker.core is core
    assert cluster.ensemble.tree.get(paths.broker_path(2)).is_ok
