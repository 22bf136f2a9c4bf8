"""A cluster in one thread: brokers on simulated machines, their network, and the coordination store.

Same seed, same properties, same calls: same run, step by step, on every machine (`digest`).
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from ottla.coordination.memory_ensemble import MemoryEnsemble
from ottla.core.types import BrokerId
from ottla.testing.simulation.client import SimulatedClient
from ottla.testing.simulation.network import Latency, SimulatedNetwork
from ottla.testing.simulation.process import ProcessState, SimulatedBroker, World
from ottla.testing.simulation.scheduler import ProcessLoop, Scheduler
from ottla.testing.simulation.store_way import STORE, StoreWays

SESSION_TIMEOUT_MS: Final = 6_000
START_WITHIN_S: Final = 60.0
START_AGAIN_AFTER_S: Final = 1.0
_NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})


class SimulatedCluster:
    """Brokers 1 to N, not started yet. Time passes only in `run_for`, `run_until` and `start`."""

    def __init__(
        self,
        seed: int,
        *,
        brokers: int = 3,
        properties: Mapping[str, str] = _NO_PROPERTIES,
        properties_of: Callable[[BrokerId], Mapping[str, str]] | None = None,
        latency: Latency | None = None,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        """`properties` are those of every broker, `properties_of` has more for each one."""
        self.seed = seed
        self.scheduler = scheduler = Scheduler(seed)
        self.network = SimulatedNetwork(scheduler, latency)
        self.network.host(STORE)
        self.store_loop = ProcessLoop(scheduler, STORE, starts_at=1.0)
        self.ensemble = MemoryEnsemble(
            self.store_loop, clock=self.store_loop.clock, session_timeout_ms=session_timeout_ms
        )
        self.world = World(scheduler, self.network, self.ensemble, StoreWays(self.network, self.store_loop))
        self.brokers: dict[BrokerId, SimulatedBroker] = {
            broker_id: SimulatedBroker(
                self.world, broker_id, {**properties, **(properties_of(broker_id) if properties_of else {})}
            )
            for broker_id in range(1, brokers + 1)
        }
        for broker in self.brokers.values():
            broker.on_exit = self._start_again
        self.clients: dict[str, SimulatedClient] = {}
        self._is_stopping = False

    @property
    def now(self) -> float:
        """Seconds since the start of the run."""
        return self.scheduler.now

    @property
    def digest(self) -> str:
        """Of all that has happened."""
        return self.scheduler.trace.digest()

    def start(self, *, within_s: float = START_WITHIN_S) -> None:
        """Start every broker, and wait until all serve."""
        self._is_stopping = False
        for broker in self.brokers.values():
            broker.start()
        self.run_until(self.all_serve, within_s=within_s)

    def stop(self, *, within_s: float = START_WITHIN_S) -> None:
        """Stop every broker that runs, and wait for it."""
        self._is_stopping = True
        for broker in self.brokers.values():
            broker.resume()
            broker.stop()
        self.run_until(lambda: not any(broker.is_up for broker in self.brokers.values()), within_s=within_s)

    def all_serve(self) -> bool:
        return all(broker.state is ProcessState.RUNNING for broker in self.brokers.values())

    def run_for(self, seconds: float) -> None:
        self.scheduler.run_until(self.scheduler.now + seconds)

    def run_until(self, condition: Callable[[], bool], *, within_s: float) -> None:
        """StillRunning if it does not come to hold in that time. The condition is asked after each step."""
        self.scheduler.run_until(condition, within_s=within_s)

    def client(self, name: str) -> SimulatedClient:
        """The process of that name; made at the first call."""
        client = self.clients.get(name)
        if client is None:
            addresses = {broker.broker_id: broker.address for broker in self.brokers.values()}
            client = self.clients[name] = SimulatedClient(self.scheduler, self.network, name, addresses)
        return client

    def note(self, kind: str) -> None:
        """Have the trace say that this happened to the cluster."""
        self.scheduler.note(self.scheduler.world, kind)

    # Faults that concern more than one process; those of a broker are its own methods

    def partition(self, one: str, other: str, *, one_way: bool = False) -> None:
        """Nothing comes through between two processes; `store` is the coordination store."""
        self.note(f"partition {one} {'->' if one_way else '<->'} {other}")
        self.network.partition(one, other, one_way=one_way)

    def isolate(self, name: str) -> None:
        """Nothing comes through between this process and any other."""
        self.note(f"isolate {name}")
        for other in list(self.network.hosts):
            if other != name:
                self.network.partition(name, other)

    def heal(self) -> None:
        """End all faults of the network, and of the ways to the store."""
        self.note("heal")
        self.network.heal_all()
        for broker in self.brokers.values():
            self.ensemble.restore(broker.name)

    def expire_session(self, broker_id: BrokerId) -> None:
        """The store gives up the session that the broker has now."""
        store = self.brokers[broker_id].store
        if store is not None:
            self.note(f"expire session of broker-{broker_id}")
            self.ensemble.expire(store.session_id)

    def _start_again(self, broker: SimulatedBroker) -> None:
        """A broker ended by itself, or its start failed: whatever runs it starts it again, as systemd does."""

        def start() -> None:
            if not broker.is_up and not self._is_stopping:
                broker.start()

        self.scheduler.call_at(self.scheduler.now + START_AGAIN_AFTER_S, start)
