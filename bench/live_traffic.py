"""Live traffic at an even rate: generated events with the time at which they are sent, and planted cheats among them.

A day of a population is played in seconds, then that of another population, so that facts about accounts and devices
are new at the rate of an app that grows fast. Made before the clock starts: sending itself is cheap.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from bench.planted_cheats import KINDS, Cheat
from ottla.clients.producer.producer import Producer
from ottla.pipeline.traffic.events import Event, encode_value
from ottla.pipeline.traffic.generator import Settings, generate

_SEED: Final = 11
_POPULATION: Final = 4_000
_TICK_S: Final = 0.01
_CHEAT_EVERY_S: Final = 0.5
# From the first events of a cheat to the one that completes it: what came before is in the store by then, and the
# moment within the batches' rhythm is another one each time.
_LEAD_S: Final = 6.0
_LEAD_STEP_S: Final = 0.137
_LEAD_STEPS: Final = 29


class _Made(NamedTuple):
    """An event but for its id, its time and which population it is of."""

    topic: str
    key: bytes
    rest: bytes


class LiveTraffic:
    """Owned by the thread that sends. `completed` is called with each cheat when its last event is sent."""

    def __init__(
        self, producer: Producer, *, events_per_second: int, completed: Callable[[Cheat, float], None]
    ) -> None:
        self._producer = producer
        self._rate = events_per_second
        self._completed = completed
        self._made = _made_events()
        self._endless = self._events()
        self._cheat_count = 0
        self._next_cheat_s = 0.0
        self._waiting: list[tuple[float, Cheat, Sequence[Event]]] = []
        self.sent = 0

    def run(self, seconds: float, *, plants: bool, each_second: Callable[[], None]) -> None:
        """Send for so long. What the clock demands is caught up with, never left out."""
        began_s = time.monotonic()
        looked_s = began_s
        sent_before = self.sent
        while (now_s := time.monotonic()) - began_s < seconds:
            due = int((now_s - began_s) * self._rate) - (self.sent - sent_before)
            if plants:
                due -= self._plant(now_s)
            self._send(max(0, due))
            if now_s - looked_s >= 1.0:
                looked_s = now_s
                each_second()
            time.sleep(max(0.0, _TICK_S - (time.monotonic() - now_s)))

    def _send(self, count: int) -> None:
        send, endless = self._producer.send, self._endless
        for _ in range(count):
            topic, key, value = next(endless)
            send(topic, value, key)
        self.sent += count

    def _plant(self, now_s: float) -> int:
        """How many events of cheats were sent. They are part of the rate."""
        count = 0
        if now_s >= self._next_cheat_s:
            self._next_cheat_s = now_s + _CHEAT_EVERY_S
            number = self._cheat_count
            self._cheat_count += 1
            cheat = KINDS[number % len(KINDS)](number)
            *opening, last = cheat.events(time.time_ns() // 1_000_000)
            count += self._send_planted(opening)
            lead_s = _LEAD_S + _LEAD_STEP_S * (number % _LEAD_STEPS)
            self._waiting.append((now_s + lead_s, cheat, [last]))
        for entry in [entry for entry in self._waiting if entry[0] <= now_s]:
            self._waiting.remove(entry)
            _, cheat, events = entry
            sent_at_s = time.time()
            count += self._send_planted([_at(event, int(sent_at_s * 1000)) for event in events])
            self._completed(cheat, sent_at_s)
        return count

    def _send_planted(self, events: Sequence[Event]) -> int:
        for event in events:
            self._producer.send(event.topic, encode_value(event), event.key.encode())
        self.sent += len(events)
        return len(events)

    def _events(self) -> Iterator[tuple[str, bytes, bytes]]:
        number = population = 0
        time_ns = time.time_ns
        while True:
            population += 1
            mark = b"%d" % population
            account, device = b'_id":"' + mark + b"u", b'device_id":"' + mark + b"d"
            for topic, key, rest in self._made:
                number += 1
                rest = rest.replace(b'_id":"u', account).replace(b'device_id":"d', device)
                yield (
                    topic,
                    mark + key,
                    b'{"event_id":"live-%d","event_time":%d,%b'
                    % (
                        number,
                        time_ns() // 1_000_000,
                        rest,
                    ),
                )


def _made_events() -> list[_Made]:
    made = []
    for event in generate(Settings(_SEED, _POPULATION, 1)):
        assert isinstance(event.value, dict)
        value = {name: each for name, each in event.value.items() if name not in ("event_id", "event_time")}
        made.append(_Made(event.topic, event.key.encode(), encode_value(event._replace(value=value))[1:]))
    return made


def _at(event: Event, time_ms: int) -> Event:
    assert isinstance(event.value, dict)
    return event._replace(value={**event.value, "event_time": time_ms}, event_time_ms=time_ms)
