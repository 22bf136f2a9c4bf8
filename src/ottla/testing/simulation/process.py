"""The brokers of a simulated cluster, each with its disk.

A `SimulatedBroker` is one machine. Each start makes a new life: another loop, another core, on the disk that is left.
What belongs to a life that has ended can do nothing any more: its loop runs nothing, its disk refuses, nothing that it
sends is carried.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from random import Random
from typing import Final, NamedTuple

from ottla.broker.cluster_join import StoreFailed
from ottla.broker.core import BrokerCore
from ottla.broker.ports import BrokerPorts
from ottla.broker.steps import Running, Steps
from ottla.controller.tree_loader import TreeError
from ottla.coordination.memory import MemoryStore
from ottla.coordination.memory_ensemble import MemoryEnsemble
from ottla.coordination.store import Store
from ottla.core.config.config import BrokerConfig
from ottla.core.exchange import FrameHandler
from ottla.links.addresses import Address
from ottla.net.limits import NetworkLimits
from ottla.testing.simulated_disk import SimulatedCrash, SimulatedDisk
from ottla.testing.simulation.links import SimulatedLinks
from ottla.testing.simulation.network import SimulatedNetwork
from ottla.testing.simulation.scheduler import ProcessLoop, Scheduler
from ottla.testing.simulation.server import SimulatedServer
from ottla.testing.simulation.store_way import StoreWays
from ottla.testing.simulation.threads import SimulatedThreads

PORT: Final = 9092
_OPEN_FILES_MAX: Final = 200
_DRIFT_MAX: Final = 0.000_2  # of a machine's clocks, each way
_CLOCK_OFFSET_MAX_MS: Final = 100
_UNWIND_MAX: Final = 100

# Ends of a start that a fault can bring about; anything else is a bug, and ends the run.
_START_PROBLEMS: Final = (OSError, StoreFailed, TreeError)


class World(NamedTuple):
    """What all processes of one simulation live in."""

    scheduler: Scheduler
    streams: SimulatedNetwork
    ensemble: MemoryEnsemble
    store_ways: StoreWays


class ProcessState(Enum):
    DOWN = "down"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class SimulatedBroker:
    """One machine with a broker; made by the cluster, which starts it, and by `on_exit` starts it again."""

    def __init__(self, world: World, broker_id: int, properties: Mapping[str, str]) -> None:
        self.broker_id = broker_id
        self.name = f"broker-{broker_id}"
        self.address = Address(self.name, PORT)
        self.state = ProcessState.DOWN
        self.is_paused = False
        self.exit_reason = ""  # why the last life ended by itself
        self.on_exit: Callable[[SimulatedBroker], None] | None = None  # a life ended by itself
        self.on_core: list[Callable[[SimulatedBroker], None]] = []  # a new core was made, and is not started yet
        self._world = world
        self._config = {
            "broker.id": str(broker_id),
            "log.dirs": "/data",
            "listeners": f"PLAINTEXT://{self.name}:{PORT}",
            "advertised.listeners": f"PLAINTEXT://{self.name}:{PORT}",
            **properties,
        }
        self._random: Random = world.scheduler.random(self.name)
        self.disk = SimulatedDisk(self._random.getrandbits(64))
        self.host = world.streams.host(self.name)
        self._rate = 1 + self._random.uniform(-_DRIFT_MAX, _DRIFT_MAX)
        self._clock_offset_ms = self._random.randint(-_CLOCK_OFFSET_MAX_MS, _CLOCK_OFFSET_MAX_MS)
        self._boots = 1
        self._steps: Steps[None] | None = None  # of the start or stop that is under way
        self._running: Running[None] | None = None
        self.loop = ProcessLoop(world.scheduler, self.name)
        self.loop.kill()
        self.core: BrokerCore | None = None
        self.store: MemoryStore | None = None

    @property
    def is_up(self) -> bool:
        """Whether there is a process; it may be paused."""
        return self.state is not ProcessState.DOWN

    @property
    def is_serving(self) -> bool:
        return self.state is ProcessState.RUNNING and not self.is_paused

    @property
    def boots(self) -> int:
        """How often the machine was switched on."""
        return self._boots

    # What is done to it

    def start(self) -> None:
        """Begin a life; `state` is RUNNING when the broker serves."""
        assert not self.is_up, f"{self.name} runs already"
        scheduler = self._world.scheduler
        scheduler.note(scheduler.world, f"start {self.name}")
        self._world.streams.power_on(self.host)
        self.state = ProcessState.STARTING
        self.is_paused = False
        self.exit_reason = ""
        self.loop = loop = ProcessLoop(
            scheduler, self.name, rate=self._rate, starts_at=self._random.uniform(10, 100_000)
        )
        loop.clock_offset_ms = self._clock_offset_ms
        loop.on_error = self._on_error
        self.core = core = BrokerCore(BrokerConfig.parse(self._config), self._ports(loop))
        for on_core in self.on_core:
            on_core(self)
        loop.call_soon(lambda: self._run(core.start(), self._on_started))

    def stop(self) -> None:
        """As by SIGTERM: the broker stops cleanly; `state` is DOWN when it has."""
        if self.state not in (ProcessState.STARTING, ProcessState.RUNNING):
            return
        self._note("stop")
        self._begin_stop()

    def kill(self) -> None:
        """As by SIGKILL: the process is gone, and its disk has all that was written."""
        if self.is_up:
            self._note("kill")
            self._end_life()

    def power_off(self) -> None:
        """The machine loses power: what was not fsynced is lost, in part or as a whole; peers are not told."""
        self._note("power off")
        self._world.streams.power_off(self.host)
        self.loop.kill()
        self.disk = self.disk.crash()
        self._boots += 1
        self._drop_life()

    def pause(self) -> None:
        """As by SIGSTOP."""
        if self.is_up and not self.is_paused:
            self._note("pause")
            self.is_paused = True
            self.loop.stop()

    def resume(self) -> None:
        """As by SIGCONT."""
        if self.is_paused:
            self._note("resume")
            self.is_paused = False
            self.loop.go_on()

    def shift_clock(self, by_ms: int) -> None:
        """Set the machine's time of day."""
        self._note(f"time of day {by_ms:+d} ms")
        self._clock_offset_ms += by_ms
        self.loop.clock_offset_ms = self._clock_offset_ms

    # One life

    def _ports(self, loop: ProcessLoop) -> BrokerPorts:
        streams = self._world.streams

        def open_store() -> Store:
            self.store = MemoryStore(
                self._world.ensemble,
                loop,
                name=self.name,
                to_ensemble=self._world.store_ways.to_store(self.name, loop),
                to_client=self._world.store_ways.from_store(self.name, loop),
            )
            return self.store

        def open_network(handler: FrameHandler, limits: NetworkLimits) -> SimulatedServer:
            return SimulatedServer(streams, self.host, loop, handler, limits)

        return BrokerPorts(
            loop=loop,
            clock=loop.clock,
            background=SimulatedThreads(loop, Random(self._random.getrandbits(64))),
            disk=self.disk,
            random=Random(self._random.getrandbits(64)),
            open_store=open_store,
            open_network=open_network,
            on_failed=lambda: loop.call_soon(self._on_failed),
            host_name=self.name,
            open_files_max=_OPEN_FILES_MAX,
            locks_log_dirs=False,
            boot_id=f"{self.name}-boot-{self._boots}",
            joins_cluster=True,
            links=SimulatedLinks(streams, self.host, loop),
        )

    def _run(self, steps: Steps[None], on_done: Callable[[Exception | None], None]) -> None:
        self._steps = steps
        self._running = Running(steps, lambda _, error: on_done(error))

    def _on_started(self, error: Exception | None) -> None:
        self._steps = None
        if error is None:
            self.state = ProcessState.RUNNING
            self._note("serves")
        elif isinstance(error, _START_PROBLEMS):
            self.exit_reason = f"the start failed: {error}"
            self._note(self.exit_reason)
            self._begin_stop()
        else:
            raise error

    def _on_failed(self) -> None:
        assert self.core is not None
        self.exit_reason = self.core.fatal_reason or "the broker failed"
        if self.state in (ProcessState.STARTING, ProcessState.RUNNING):
            self._note(self.exit_reason)
            self._begin_stop()

    def _begin_stop(self) -> None:
        core = self.core
        assert core is not None
        if self.state is ProcessState.STARTING and self._running is not None:
            self._running.cancel()
        self.state = ProcessState.STOPPING
        self.loop.call_soon(lambda: self._run(core.stop(), self._on_stopped))

    def _on_stopped(self, error: Exception | None) -> None:
        self._steps = None
        if error is not None and not isinstance(error, OSError):
            raise error
        if error is not None:
            self.exit_reason = self.exit_reason or f"the stop failed: {error}"
        self._note("stopped")
        self._end_life()
        if self.exit_reason and self.on_exit is not None:
            self.on_exit(self)

    def _on_error(self, error: Exception) -> bool:
        """A step of this process failed; a disk that lost power takes the machine with it."""
        if not isinstance(error, SimulatedCrash):
            return False
        if self.is_up:
            self.exit_reason = "the disk lost power"
            self.power_off()
            if self.on_exit is not None:
                self.on_exit(self)
        return True

    def _end_life(self) -> None:
        self.loop.kill()
        self._world.streams.end_process(self.host)
        self.disk = self.disk.end_process()
        self._drop_life()

    def _drop_life(self) -> None:
        self.state = ProcessState.DOWN
        self.is_paused = False
        self.core = None
        self.store = None
        self._running = None
        steps, self._steps = self._steps, None
        if steps is not None:
            _unwind(steps)

    def _note(self, kind: str) -> None:
        self._world.scheduler.note(self.loop, kind)


def _unwind(steps: Steps[None]) -> None:
    """End a start or a stop of a life that is over, now rather than when its memory is freed.

    A stop does its next steps even then; all that they could reach is dead.
    """
    for _ in range(_UNWIND_MAX):
        try:
            steps.close()
        except Exception:  # noqa: BLE001 - whatever a dead process finds wrong
            continue
        return
