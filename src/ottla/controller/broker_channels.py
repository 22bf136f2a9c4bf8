"""One channel to each live broker: control requests in order, one in flight, again with back-off when they fail.

A channel belongs to one registration of its broker: when the broker registers anew, it gets a channel of its own, which
begins with the full picture. So nothing has to be remembered of what a dead broker was sent.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

from ottla.controller.control_batch import ControlBatch
from ottla.controller.ports import ControllerPorts
from ottla.core.cluster import BrokerInfo
from ottla.core.control import ControlAnswer, ControlRequest, ControlStamp
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, ControllerEpoch

_BACKOFF_MS = 50
_BACKOFF_MS_MAX = 1_000

OnAnswer = Callable[[BrokerId, ControlRequest, ControlAnswer], None]


class BrokerChannel:
    """Owned by `BrokerChannels`; event loop only."""

    def __init__(
        self,
        broker: BrokerInfo,
        stamp: ControlStamp,
        ports: ControllerPorts,
        live_brokers: Callable[[], tuple[BrokerInfo, ...]],
        on_answer: OnAnswer,
        next_number: Callable[[], int],
    ) -> None:
        self.broker = broker
        self._stamp = stamp
        self._next_number = next_number
        self._ports = ports
        self._live_brokers = live_brokers
        self._on_answer = on_answer
        self._batches: deque[ControlBatch] = deque()
        self._steps: deque[ControlRequest | Callable[[], None]] = deque()  # of the batch that is being sent
        self._in_flight: ControlRequest | None = None
        self._backoff_ms = _BACKOFF_MS
        self._is_scheduled = False
        self._is_working = False
        self._is_closed = False

    def batch_for(self, topic: str | None = None) -> ControlBatch:
        """Where something about `topic` is added; it is sent after this turn of the loop."""
        batches = self._batches
        if not batches or (topic is not None and batches[-1].conflicts_with(topic)):
            batches.append(ControlBatch())
        self._schedule()
        return batches[-1]

    def seal(self) -> None:
        """What comes now is sent after all that was added before."""
        if self._batches and not self._batches[-1].is_empty:
            self._batches.append(ControlBatch())

    def use_configs(self, topic: str, configs: dict[str, str]) -> None:
        """A broker that has still to hear of the topic hears of its present configs."""
        for batch in self._batches:
            batch.use_configs(topic, configs)

    def close(self) -> None:
        """The broker is gone, or this controller is: nobody waits for it any more."""
        self._is_closed = True
        waiting = [step for step in self._steps if not isinstance(step, tuple)]
        waiting += [on_applied for batch in self._batches for on_applied in batch.when_applied]
        self._steps.clear()
        self._batches.clear()
        for on_applied in waiting:
            on_applied()

    def _schedule(self) -> None:
        if not self._is_scheduled and self._in_flight is None and not self._is_closed:
            self._is_scheduled = True
            self._ports.call_soon(self._on_turn)

    def _on_turn(self) -> None:
        self._is_scheduled = False
        self._work()

    def _work(self) -> None:
        """Send the next request. One that is answered inside the call is the loop's next round, not a recursion."""
        if self._is_working:
            return
        self._is_working = True
        try:
            while self._in_flight is None and not self._is_closed and (self._steps or self._batches):
                if not self._steps:
                    self._begin(self._batches.popleft())
                    continue
                step = self._steps.popleft()
                if isinstance(step, tuple):
                    self._in_flight = request = step._replace(stamp=self._stamp._replace(number=self._next_number()))
                    self._send(request)
                else:
                    step()
        finally:
            self._is_working = False

    def _begin(self, batch: ControlBatch) -> None:
        self._steps.extend(batch.first_requests(self._stamp, self._live_brokers()))
        self._steps.extend(batch.when_applied)
        self._steps.extend(batch.last_requests(self._stamp))

    def _send(self, request: ControlRequest) -> None:
        if not self._is_closed:
            self._ports.link.send(self.broker, request, partial(self._on_sent, request))

    def _on_sent(self, request: ControlRequest, answer: ControlAnswer | None) -> None:
        if self._is_closed or self._in_flight is not request:
            return
        # A broker that has just registered may not know its new epoch yet. If it is an older one that is meant here,
        # its new registration ends this channel.
        if answer is None or answer.error_code == ErrorCode.STALE_BROKER_EPOCH:
            self._ports.call_later(self._backoff_ms, partial(self._send, request))
            self._backoff_ms = min(2 * self._backoff_ms, _BACKOFF_MS_MAX)
            return
        self._backoff_ms = _BACKOFF_MS
        self._in_flight = None
        self._on_answer(self.broker.broker_id, request, answer)
        self._work()


class BrokerChannels:
    """The channels of one term of a controller."""

    def __init__(
        self,
        ports: ControllerPorts,
        *,
        controller_id: BrokerId,
        controller_epoch: ControllerEpoch,
        live_brokers: Callable[[], tuple[BrokerInfo, ...]],
        on_answer: OnAnswer,
    ) -> None:
        self._ports = ports
        self._controller_id = controller_id
        self._controller_epoch = controller_epoch
        self._live_brokers = live_brokers
        self._on_answer = on_answer
        self._channels: dict[BrokerId, BrokerChannel] = {}
        self._numbers = count(1)  # of requests

    def open(self, broker: BrokerInfo) -> BrokerChannel:
        stamp = ControlStamp(self._controller_id, self._controller_epoch, broker.epoch)
        channel = BrokerChannel(
            broker, stamp, self._ports, self._live_brokers, self._on_answer, partial(next, self._numbers)
        )
        self._channels[broker.broker_id] = channel
        return channel

    def get(self, broker_id: BrokerId) -> BrokerChannel | None:
        return self._channels.get(broker_id)

    def __iter__(self) -> Iterator[BrokerChannel]:
        return iter(self._channels.values())

    def close(self, broker_id: BrokerId) -> None:
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.close()

    def close_all(self) -> None:
        for broker_id in list(self._channels):
            self.close(broker_id)
