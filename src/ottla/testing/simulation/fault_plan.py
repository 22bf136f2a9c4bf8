"""What goes wrong in a run, and when: drawn from the seed, one fault after the other, each with its end.

A plan leaves most brokers alone at any time (`FaultSettings.down_max`), so that the cluster can go on; what is safe
must not depend on that. `end` undoes everything: from then on a correct cluster heals by itself.
"""

import errno
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from ottla.testing.simulation.cluster import SimulatedCluster
from ottla.testing.simulation.endpoint import Endpoint
from ottla.testing.simulation.process import ProcessState, SimulatedBroker
from ottla.testing.simulation.scheduler import Timer
from ottla.testing.simulation.store_way import STORE

_SLOW_MAX_S: Final = 2.0
_CLOCK_SHIFT_MAX_MS: Final = 5_000
_DISK_OPERATIONS_MAX: Final = 300
_SPACE_MAX_BYTES: Final = 20_000
_ANSWERS_MAX: Final = 3
_STOP_WAIT_S: Final = 0.5
_ONLY_BY_NAME: Final = ("power-off-all",)


class FaultSettings(NamedTuple):
    """`kinds` are names of `FaultPlan.KINDS`; empty stands for all of them but those that leave no broker alone."""

    interval_s: float = 4.0  # between two faults, on average
    lasts_max_s: float = 20.0
    down_max: int = 1  # brokers that don't run, are paused or cut off, at one time
    kinds: tuple[str, ...] = ()
    spares_clients: bool = False  # the network fails between brokers alone: clients see all that brokers do


class FaultPlan:
    """Made for a cluster that runs; `start` once, `end` once."""

    def __init__(self, cluster: SimulatedCluster, settings: FaultSettings | None = None) -> None:
        self._cluster = cluster
        self._settings = settings or FaultSettings()
        self._random = cluster.scheduler.random("faults")
        self._down: dict[SimulatedBroker, None] = {}  # by this plan
        self._stopping: dict[SimulatedBroker, None] = {}  # to be started when they have
        self._timer: Timer | None = None
        self._is_over = False
        self.counts: dict[str, int] = {}
        unknown = [kind for kind in self._settings.kinds if kind not in self.KINDS]
        if unknown:
            raise ValueError(f"no faults of these kinds: {', '.join(unknown)}; there are {', '.join(self.KINDS)}")
        self._kinds = list(self._settings.kinds) or [kind for kind in self.KINDS if kind not in _ONLY_BY_NAME]

    def start(self) -> None:
        self._plan_next()

    def end(self) -> None:
        """No further fault, and none of those before is left."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        cluster = self._cluster
        cluster.heal()
        cluster.ensemble.start()
        for broker in cluster.brokers.values():
            broker.disk.heal()
            self._bring_up(broker)

    # One fault

    def _plan_next(self) -> None:
        delay_s = self._random.expovariate(1 / self._settings.interval_s)
        self._timer = self._cluster.scheduler.call_at(self._cluster.now + delay_s, self._inject)

    def _inject(self) -> None:
        kind = self._random.choice(self._kinds)
        if self.KINDS[kind](self):
            self.counts[kind] = self.counts.get(kind, 0) + 1
        self._plan_next()

    def _later(self, undo: Callable[[], None]) -> None:
        """End a fault after some time; `end` ends it too."""

        def run() -> None:
            if not self._is_over:
                undo()

        # Most are short: what heals before anybody noticed is a case of its own.
        lasts_s = self._settings.lasts_max_s * self._random.random() ** 2
        self._cluster.scheduler.call_at(self._cluster.now + lasts_s, run)

    def _any_broker(self) -> SimulatedBroker:
        return self._random.choice(list(self._cluster.brokers.values()))

    def _take_down(self) -> SimulatedBroker | None:
        """A broker that may be down from now on; None when there are enough of them."""
        brokers = list(self._cluster.brokers.values())
        free = [broker for broker in brokers if broker.is_serving and broker not in self._down]
        if not free or len(brokers) - len(free) >= self._settings.down_max:
            return None
        broker = self._random.choice(free)
        self._down[broker] = None
        return broker

    def _bring_up(self, broker: SimulatedBroker) -> None:
        self._down.pop(broker, None)
        broker.resume()
        if broker.state is ProcessState.STOPPING and broker not in self._stopping:  # a clean stop takes its time
            self._stopping[broker] = None
            self._start_when_stopped(broker, broker.loop.number)
        elif not broker.is_up:
            broker.start()

    def _start_when_stopped(self, broker: SimulatedBroker, life: int) -> None:
        if broker.state is ProcessState.STOPPING and broker.loop.number == life:
            again = partial(self._start_when_stopped, broker, life)
            self._cluster.scheduler.call_at(self._cluster.now + _STOP_WAIT_S, again)
            return
        del self._stopping[broker]
        # One that ended by itself is started by the cluster.
        if not broker.is_up and broker.loop.number == life and not broker.exit_reason:
            broker.start()

    def _two_hosts(self) -> tuple[str, str]:
        one, other = self._random.sample(self._hosts(), 2)
        return one, other

    def _hosts(self) -> list[str]:
        """Between which the network may fail."""
        if self._settings.spares_clients:
            return [broker.name for broker in self._cluster.brokers.values()]
        return list(self._cluster.network.hosts)

    def _any_connection(self) -> Endpoint | None:
        connections = self._cluster.network.connections()
        if self._settings.spares_clients:
            names = self._hosts()
            connections = [one for one in connections if one.way[0] in names and one.way[1] in names]
        return self._random.choice(connections) if connections else None

    # Kinds: each says whether there was something to break

    def _cut(self) -> bool:
        endpoint = self._any_connection()
        if endpoint is None:
            return False
        self._cluster.note(f"cut {endpoint.way[0]} {endpoint.way[1]}")
        self._cluster.network.cut(endpoint)
        return True

    def _stall(self) -> bool:
        endpoint = self._any_connection()
        if endpoint is None:
            return False
        end = endpoint if self._random.random() < 0.5 else endpoint.peer
        assert end is not None
        self._cluster.note(f"stall {end.way[0]} -> {end.way[1]}")
        self._cluster.network.stall(end)
        self._later(partial(self._cluster.network.stall, end, False))
        return True

    def _delay(self) -> bool:
        way, slow = self._two_hosts(), self._cluster.network.slow
        slow[way] = self._random.uniform(0, _SLOW_MAX_S)
        self._cluster.note(f"delay {way[0]} -> {way[1]} by {slow[way]:.3f} s")

        def undo() -> None:
            slow.pop(way, None)

        self._later(undo)
        return True

    def _refuse(self) -> bool:
        name = self._any_broker().name
        self._cluster.note(f"refuse connections to {name}")
        self._cluster.network.refuse(name)
        self._later(partial(self._cluster.network.refuse, name, False))
        return True

    def _partition(self) -> bool:
        one, other = self._two_hosts()
        self._cluster.partition(one, other, one_way=self._random.random() < 0.4)
        self._later(partial(self._cluster.network.heal, one, other))
        return True

    def _isolate(self) -> bool:
        broker = self._take_down()
        if broker is None:
            return False
        if self._settings.spares_clients:
            for other in self._hosts():
                if other != broker.name:
                    self._cluster.partition(broker.name, other)
        else:
            self._cluster.isolate(broker.name)

        def undo() -> None:
            for other in self._cluster.network.hosts:
                self._cluster.network.heal(broker.name, other)
            self._down.pop(broker, None)

        self._later(undo)
        return True

    def _pause(self) -> bool:
        return self._end_broker(SimulatedBroker.pause)

    def _kill(self) -> bool:
        return self._end_broker(SimulatedBroker.kill)

    def _stop(self) -> bool:
        return self._end_broker(SimulatedBroker.stop)

    def _power_off(self) -> bool:
        return self._end_broker(SimulatedBroker.power_off)

    def _end_broker(self, end: Callable[[SimulatedBroker], None]) -> bool:
        broker = self._take_down()
        if broker is None:
            return False
        end(broker)
        self._later(partial(self._bring_up, broker))
        return True

    def _power_off_in_write(self) -> bool:
        """At one of the next operations on the disk, in the middle of whatever the broker does."""
        broker = self._take_down()
        if broker is None:
            return False
        operations = self._random.randint(1, _DISK_OPERATIONS_MAX)
        self._cluster.note(f"power off {broker.name} after {operations} operations on its disk")
        broker.disk.crash_after(operations)

        def undo() -> None:
            broker.disk.heal()
            self._bring_up(broker)

        self._later(undo)
        return True

    def _power_off_all(self) -> bool:
        """All at one moment; they come back one after the other, and who is first may be elected."""
        brokers = [broker for broker in self._cluster.brokers.values() if broker.is_up]
        for broker in brokers:
            self._down[broker] = None
            broker.power_off()
            self._later(partial(self._bring_up, broker))
        return bool(brokers)

    def _disk_full(self) -> bool:
        return self._break_disk(lambda disk: disk.no_space_after(self._random.randint(0, _SPACE_MAX_BYTES)), "full")

    def _disk_fails(self) -> bool:
        operation = self._random.choice(("append", "pread", "open_append", "open_read", "rename"))
        return self._break_disk(lambda disk: disk.fail_next(operation, errno.EIO), f"fails to {operation}")

    def _break_disk(self, break_it: Callable[..., None], how: str) -> bool:
        broker = self._take_down()
        if broker is None:
            return False
        self._cluster.note(f"the disk of {broker.name} {how}")
        break_it(broker.disk)

        def undo() -> None:
            broker.disk.heal()
            self._bring_up(broker)

        self._later(undo)
        return True

    def _session_expired(self) -> bool:
        broker = self._any_broker()
        self._cluster.expire_session(broker.broker_id)
        return broker.store is not None

    def _store_answers_lost(self) -> bool:
        broker = self._any_broker()
        count = self._random.randint(1, _ANSWERS_MAX)
        self._cluster.note(f"the store loses {count} answers to {broker.name}")
        self._cluster.ensemble.lose_answers(count, client=broker.name)
        return True

    def _store_cut(self) -> bool:
        name = self._any_broker().name
        self._cluster.note(f"cut {name} {STORE}")
        self._cluster.ensemble.cut(name)
        self._later(partial(self._cluster.ensemble.restore, name))
        return True

    def _store_gone(self) -> bool:
        ensemble = self._cluster.ensemble
        self._cluster.note("the store is gone")
        ensemble.stop()
        self._later(ensemble.start)
        return True

    def _clock_shifted(self) -> bool:
        self._any_broker().shift_clock(self._random.randint(-_CLOCK_SHIFT_MAX_MS, _CLOCK_SHIFT_MAX_MS))
        return True

    KINDS: Final[dict[str, Callable[["FaultPlan"], bool]]] = {
        "cut": _cut,
        "stall": _stall,
        "delay": _delay,
        "refuse": _refuse,
        "partition": _partition,
        "isolate": _isolate,
        "pause": _pause,
        "kill": _kill,
        "stop": _stop,
        "power-off": _power_off,
        "power-off-in-write": _power_off_in_write,
        "power-off-all": _power_off_all,
        "disk-full": _disk_full,
        "disk-fails": _disk_fails,
        "session-expired": _session_expired,
        "store-answers-lost": _store_answers_lost,
        "store-cut": _store_cut,
        "store-gone": _store_gone,
        "clock-shifted": _clock_shifted,
    }
