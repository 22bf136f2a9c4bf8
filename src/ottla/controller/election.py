"""The controller is the broker that holds the ephemeral node /controller. Each winner raises /controller_epoch."""

from collections.abc import Callable
from typing import NamedTuple

from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import Code, Result, Store
from ottla.core.clock import Clock
from ottla.core.types import BrokerId


class ElectionResult(NamedTuple):
    """The controller as it is now; `epoch` is 0 for a broker that did not win. A `problem` means that nobody knows."""

    controller_id: BrokerId
    epoch: int
    problem: str | None = None


class Election:
    """One broker's attempt to become the controller."""

    def __init__(self, store: Store, *, broker_id: BrokerId, clock: Clock) -> None:
        self._store = store
        self._broker_id = broker_id
        self._clock = clock

    def run(self, on_done: Callable[[ElectionResult], None]) -> None:
        value = paths.encode_controller(paths.ControllerNode(self._broker_id, self._clock()))

        def on_created(result: Result) -> None:
            if result.is_ok:
                self._raise_epoch(on_done)
            elif result.code == Code.NODE_EXISTS:
                self._read_winner(on_done)
            else:
                on_done(_unknown(result))

        self._store.create(paths.CONTROLLER, value, on_created, ephemeral=True)

    def _raise_epoch(self, on_done: Callable[[ElectionResult], None]) -> None:
        path = paths.CONTROLLER_EPOCH

        def on_read(result: Result) -> None:
            if result.code == Code.NO_NODE:
                self._store.create(path, paths.encode_integer(1), lambda written: on_written(written, 1))
            elif result.is_ok and result.stat is not None:
                try:
                    epoch = paths.decode_integer(path, result.value) + 1
                except MalformedNodeError as error:
                    on_done(ElectionResult(-1, 0, str(error)))
                    return
                self._store.set(
                    path,
                    paths.encode_integer(epoch),
                    lambda written: on_written(written, epoch),
                    version=result.stat.version,
                )
            else:
                on_done(_unknown(result))

        def on_written(result: Result, epoch: int) -> None:
            on_done(ElectionResult(self._broker_id, epoch) if result.is_ok else _unknown(result))

        self._store.get(path, on_read)

    def _read_winner(self, on_done: Callable[[ElectionResult], None]) -> None:
        def on_read(result: Result) -> None:
            if result.is_ok:
                try:
                    winner = paths.decode_controller(paths.CONTROLLER, result.value)
                except MalformedNodeError as error:
                    on_done(ElectionResult(-1, 0, str(error)))
                else:
                    on_done(ElectionResult(winner.broker_id, 0))
            elif result.code == Code.NO_NODE:
                self.run(on_done)  # it is gone by now: try again
            else:
                on_done(_unknown(result))

        self._store.get(paths.CONTROLLER, on_read)


def _unknown(result: Result) -> ElectionResult:
    return ElectionResult(-1, 0, f"controller election: {result.path}: {result.code.name} {result.detail}")
