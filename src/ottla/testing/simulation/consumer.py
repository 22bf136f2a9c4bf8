"""Our own consumer in a simulated process: its core and its session, on the simulation's network, clock and chance.

Whoever uses it is a coroutine of `broker/steps.py`: it awaits what the session offers, and `sleep`.
"""

from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from ottla.broker.steps import Answer
from ottla.clients.config import ClientConfig
from ottla.clients.consumer.core import ConsumerCore
from ottla.clients.consumer.keys import CONSUMER_DEFINITION
from ottla.clients.consumer.session import Session
from ottla.clients.errors import ClientClosed, ClientError
from ottla.clients.network.metadata import Metadata
from ottla.links.backoff import Backoff
from ottla.testing.simulation.client import SimulatedClient
from ottla.testing.simulation.scheduler import ProcessLoop

T = TypeVar("T")


class SimulatedConsumer:
    """One life of a consumer; `session` has its methods. Its owner closes it, or leaves it to the session timeout."""

    def __init__(self, client: SimulatedClient, **settings: Any) -> None:
        config = _SeededConfig.parse(
            CONSUMER_DEFINITION,
            {
                "bootstrap.servers": client.bootstrap,
                "client.id": client.name,
                **{key.replace("_", "."): value for key, value in settings.items()},
            },
        )
        assert isinstance(config, _SeededConfig)
        config.random = client.random
        self._network = client.open_network(config.network_settings(), knows_brokers=False)
        self._waiting = LoopWaiting(client.loop)
        self._metadata = Metadata(
            self._network,
            max_age_ms=config.get_int("metadata.max.age.ms"),
            backoff_ms=config.get_int("retry.backoff.ms"),
            backoff_max_ms=config.get_int("retry.backoff.max.ms"),
            random=client.random,
        )
        self.core = ConsumerCore(
            self._network,
            self._metadata,
            config,
            wall_ms=client.loop.clock,
            hand_over=self._waiting.post,
            on_attention=self._waiting.wake,
        )
        self.session = Session(self.core, config, self._waiting)

    async def close(self, timeout_ms: int) -> None:
        """Leave the group, and close every connection."""
        try:
            await self.session.close(timeout_ms)
        finally:
            self.drop()

    def drop(self) -> None:
        """Close the connections without a word to the group."""
        self._metadata.close(ClientClosed("the consumer is closed"))
        self._network.brokers.close()


class LoopWaiting:
    """Implements `clients/consumer/session.py` Waiting: the user's side and the client loop are one process."""

    def __init__(self, loop: ProcessLoop) -> None:
        self._loop = loop
        self._is_set = False
        self._answer: Answer[None] | None = None

    def now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def in_loop(self, callback: Callable[[], T]) -> T:
        return callback()

    def post(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def clear(self) -> None:
        self._is_set = False

    def wake(self) -> None:
        self._is_set = True
        answer, self._answer = self._answer, None
        if answer is not None:
            # Not here: the user's side must not run within the core's call.
            self._loop.call_soon(lambda: answer.give(None))

    async def wait(self, timeout_ms: int) -> None:
        if self._is_set:
            await sleep(self._loop, 0)
            return
        self._answer = answer = Answer[None]()
        timer = self._loop.call_later(timeout_ms / 1000, self.wake)
        await answer
        timer.cancel()

    def failure(self) -> ClientError | None:
        return None


async def sleep(loop: ProcessLoop, seconds: float) -> None:
    """Wait, in a coroutine of a simulated process."""
    answer: Answer[None] = Answer()
    loop.call_later(seconds, lambda: answer.give(None))
    await answer


class _SeededConfig(ClientConfig):
    """A config whose waits are those of the seed."""

    random: Random

    def retry_backoff(self) -> Backoff:
        first_ms, max_ms = self.get_int("retry.backoff.ms"), self.get_int("retry.backoff.max.ms")
        return Backoff(first_ms=first_ms, max_ms=max_ms, random=self.random)
