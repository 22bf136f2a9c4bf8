"""The controller is the broker that holds the ephemeral node /controller. Each winner raises /controller_epoch.

Both in one multi: whoever holds the node has an epoch of its own, and every later write of it checks the version that
this multi gave to /controller_epoch. So a controller that was deposed without knowing it writes nothing any more.
"""

from collections.abc import Callable
from typing import NamedTuple

from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import (
    ANY_VERSION,
    Check,
    Code,
    Create,
    Delete,
    Result,
    SetValue,
    Store,
    Write,
)
from ottla.core.clock import Clock
from ottla.core.types import BrokerId

OnElected = Callable[["ElectionResult"], None]


class ElectionResult(NamedTuple):
    """The controller as it is now; `epoch` is 0 for a broker that did not win. A `problem` means that nobody knows."""

    controller_id: BrokerId
    epoch: int
    problem: str | None = None
    epoch_version: int = 0  # of the node /controller_epoch, for the winner


class Election:
    """One broker's attempt to become the controller."""

    def __init__(self, store: Store, *, broker_id: BrokerId, clock: Clock) -> None:
        self._store = store
        self._broker_id = broker_id
        self._clock = clock

    def run(self, on_done: OnElected) -> None:
        path = paths.CONTROLLER_EPOCH

        def on_read(result: Result) -> None:
            if result.code == Code.NO_NODE:
                self._try_to_win(1, Create(path, paths.encode_integer(1)), on_done)
            elif result.is_ok and result.stat is not None:
                try:
                    epoch = paths.decode_integer(path, result.value) + 1
                except MalformedNodeError as error:
                    on_done(ElectionResult(-1, 0, str(error)))
                else:
                    raised = SetValue(path, paths.encode_integer(epoch), result.stat.version)
                    self._try_to_win(epoch, raised, on_done)
            else:
                on_done(_unknown(result))

        self._store.get(path, on_read)

    def _try_to_win(self, epoch: int, raised: Write, on_done: OnElected) -> None:
        value = paths.encode_controller(paths.ControllerNode(self._broker_id, self._clock()))

        def on_written(result: Result) -> None:
            if result.is_ok:
                stat = result.results[0].stat
                assert stat is not None
                on_done(ElectionResult(self._broker_id, epoch, epoch_version=stat.version))
            elif result.code in (Code.NODE_EXISTS, Code.BAD_VERSION, Code.CONNECTION_LOST):
                self._read_winner(epoch, on_done)  # perhaps it is this broker, and only the answer was lost
            else:
                on_done(_unknown(result))

        self._store.multi([raised, Create(paths.CONTROLLER, value, ephemeral=True)], on_written)

    def _read_winner(self, epoch: int, on_done: OnElected) -> None:
        """`epoch` is the one that this broker has tried to win."""

        def on_read(result: Result) -> None:
            if result.code == Code.NO_NODE:
                self.run(on_done)  # it is gone by now: try again
                return
            if not result.is_ok or result.stat is None:
                on_done(_unknown(result))
                return
            try:
                winner = paths.decode_controller(paths.CONTROLLER, result.value).broker_id
            except MalformedNodeError as error:
                on_done(ElectionResult(-1, 0, str(error)))
                return
            # A node of this broker's last session will go soon, and is not its own.
            if winner == self._broker_id and result.stat.ephemeral_owner == self._store.session_id:
                self._read_own_epoch(epoch, on_done)
            else:
                on_done(ElectionResult(winner, 0))

        self._store.get(paths.CONTROLLER, on_read)

    def _read_own_epoch(self, epoch: int, on_done: OnElected) -> None:
        """This session holds the node. If not with this epoch, it is left over from a term that is over."""

        def on_read(result: Result) -> None:
            if not result.is_ok or result.stat is None:
                on_done(_unknown(result))
            elif result.value == paths.encode_integer(epoch):
                on_done(ElectionResult(self._broker_id, epoch, epoch_version=result.stat.version))
            else:
                leave: list[Write] = [Check(result.path, result.stat.version), Delete(paths.CONTROLLER, ANY_VERSION)]
                self._store.multi(leave, on_left)

        def on_left(result: Result) -> None:
            if result.is_ok or result.code in (Code.NO_NODE, Code.BAD_VERSION):
                self.run(on_done)
            else:
                on_done(_unknown(result))

        self._store.get(paths.CONTROLLER_EPOCH, on_read)


def _unknown(result: Result) -> ElectionResult:
    path = result.path or paths.CONTROLLER
    return ElectionResult(-1, 0, f"controller election: {path}: {result.code.name} {result.detail}")
