"""A broker's registration in the coordination store, and its epoch: each registration has a larger one.

The epoch is the version of the node /ottla/brokers/N, which is written together with the ephemeral /brokers/ids/N: so
a multi can check that a broker has not registered anew since.
"""

import logging
from collections.abc import Callable

from ottla.broker.cluster_join import StoreFailed, store_failed
from ottla.broker.steps import Answer, Running, Steps, ask
from ottla.coordination import paths
from ottla.coordination.store import (
    ANY_VERSION,
    Code,
    Create,
    Result,
    SessionState,
    SetValue,
    Store,
    Write,
)
from ottla.core.types import NO_BROKER_EPOCH, BrokerEpoch, BrokerId

_LOG = logging.getLogger("ottla.broker")

_RETRY_MS = 200
_NO_ANSWER = (Code.CONNECTION_LOST, Code.SESSION_EXPIRED)


class Registration:
    """`register` at the start, and by itself again when the session was lost; `stop` ends that. Event loop only."""

    def __init__(
        self,
        store: Store,
        broker_id: BrokerId,
        node: paths.BrokerRegistration,
        *,
        wait_ms: int,
        now_ms: Callable[[], int],
        call_later: Callable[[int, Callable[[], None]], object],
        on_registered: Callable[[BrokerEpoch], None],
        on_failed: Callable[[str], None],
    ) -> None:
        """`wait_ms` is how long the id may still be held by a session that is dead but not over: its timeout.

        `on_registered` hears of every registration, `on_failed` why a broker that was registered can't be any more.
        """
        self._store = store
        self._broker_id = broker_id
        self._path = paths.broker_path(broker_id)
        self._epoch_path = paths.broker_epoch_path(broker_id)
        self._node = node
        self._wait_ms = wait_ms
        self._now_ms = now_ms
        self._call_later = call_later
        self._on_registered = on_registered
        self._on_failed = on_failed
        self._is_watching_session = False
        self._is_stopped = False
        self._again: Running[BrokerEpoch] | None = None
        self.epoch: BrokerEpoch = NO_BROKER_EPOCH

    async def register(self) -> BrokerEpoch:
        """Announce this broker as alive, for as long as its session lives; StoreFailed: another one has its id."""
        if not self._is_watching_session:
            self._is_watching_session = True
            self._store.add_session_listener(self._on_session)
        value = paths.encode_broker(self._node)
        deadline_ms = self._now_ms() + self._wait_ms
        while True:
            result: Result = await ask(
                self._store.multi, self._writes(value, SetValue(self._epoch_path, b"", ANY_VERSION))
            )
            if result.code == Code.NO_NODE:  # the first registration of this id
                result = await ask(self._store.multi, self._writes(value, Create(self._epoch_path, b"")))
            if result.is_ok:
                stat = result.results[1].stat
                assert stat is not None
                return self._registered(stat.version)
            if result.code not in (Code.NODE_EXISTS, *_NO_ANSWER):
                raise store_failed("registering at", result)
            waiting: Answer[None] = Answer()
            give = _once(waiting)
            found: Result = await ask(self._store.exists, self._path, watch=give)
            if found.stat is not None and found.stat.ephemeral_owner == self._store.session_id:
                return self._registered(await self._own_epoch())  # its answer was lost
            if not found.is_ok and self.epoch != NO_BROKER_EPOCH:
                # A broker that serves goes on without the store; how long its id is held is counted when that is back.
                deadline_ms = self._now_ms() + self._wait_ms
            left_ms = deadline_ms - self._now_ms()
            if left_ms <= 0:
                if found.is_ok:
                    raise StoreFailed(
                        f"broker.id {self._broker_id} is taken by a broker that is alive; give this one another"
                    )
                raise store_failed("registering at", result)
            if found.is_ok:
                _LOG.info("broker.id %d is held by an older session; waiting for its end", self._broker_id)
                self._call_later(left_ms, give)
            else:
                self._call_later(min(left_ms, _RETRY_MS), give)
            await waiting

    async def wait_for_free_id(self) -> None:
        """Until no session has the id registered; StoreFailed: another broker has it, and lives."""
        deadline_ms = self._now_ms() + self._wait_ms
        while True:
            waiting: Answer[None] = Answer()
            give = _once(waiting)
            found: Result = await ask(self._store.exists, self._path, watch=give)
            if found.code == Code.NO_NODE:
                return
            left_ms = deadline_ms - self._now_ms()
            if not found.is_ok and found.code not in _NO_ANSWER:
                raise store_failed("reading", found)
            if left_ms <= 0:
                raise StoreFailed(
                    f"broker.id {self._broker_id} is taken by a broker that is alive; give this one another"
                )
            self._call_later(left_ms if found.is_ok else min(left_ms, _RETRY_MS), give)
            await waiting

    def stop(self) -> None:
        """Register no more; the node goes with the session."""
        self._is_stopped = True
        if self._again is not None:
            self._again.cancel()
            self._again = None

    def _writes(self, value: bytes, epoch_write: Write) -> list[Write]:
        return [Create(self._path, value, ephemeral=True), epoch_write]

    async def _own_epoch(self) -> BrokerEpoch:
        """Nobody else registers this id while our node is there, so the epoch stands still."""
        while True:
            result: Result = await ask(self._store.exists, self._epoch_path)
            if result.stat is not None:
                return result.stat.version
            if result.code not in _NO_ANSWER:
                raise store_failed("reading", result)
            pause: Answer[None] = Answer()
            self._call_later(_RETRY_MS, _once(pause))
            await pause

    def _registered(self, epoch: BrokerEpoch) -> BrokerEpoch:
        self.epoch = epoch
        self._on_registered(epoch)
        return epoch

    def _on_session(self, state: SessionState) -> None:
        if self._is_stopped:
            return
        if state == SessionState.EXPIRED and self._again is not None:
            self._again.cancel()
            self._again = None
        elif state == SessionState.CONNECTED and self.epoch != NO_BROKER_EPOCH and self._again is None:
            self._register_again()

    def _register_again(self) -> None:
        def on_done(epoch: BrokerEpoch | None, error: Exception | None) -> None:
            self._again = None
            if error is not None:
                self._on_failed(str(error))
            else:
                _LOG.warning("broker %d is registered again, with epoch %s", self._broker_id, epoch)

        steps: Steps[BrokerEpoch] = self._register_in_new_session()
        running = Running(steps, on_done)
        self._again = running

    async def _register_in_new_session(self) -> BrokerEpoch:
        """CONNECTED also follows SUSPENDED, in the old session: then the node is still there."""
        found: Result = await ask(self._store.exists, self._path)
        if found.stat is not None and found.stat.ephemeral_owner == self._store.session_id:
            return self.epoch
        return await self.register()


def _once(answer: Answer[None]) -> Callable[..., None]:
    """Gives the answer with the first of its calls: a watch and a timer may both come."""
    is_given = False

    def give(*_: object) -> None:
        nonlocal is_given
        if not is_given:
            is_given = True
            answer.give(None)

    return give
