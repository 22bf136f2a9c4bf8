"""Which brokers live: read from their registrations, with the epoch of each, and again whenever one comes or goes."""

import logging
from collections.abc import Callable
from functools import partial

from ottla.controller.fenced_store import FencedStore
from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import Result, WatchEvent
from ottla.core.cluster import BrokerEndpoint, BrokerInfo
from ottla.core.types import NO_BROKER_EPOCH, BrokerEpoch, BrokerId

_LOG = logging.getLogger("ottla.controller")

Brokers = dict[BrokerId, BrokerInfo]


def broker_of(broker_id: BrokerId, registration: paths.BrokerRegistration, epoch: BrokerEpoch) -> BrokerInfo:
    """A broker by its registration, whose endpoints look like `PLAINTEXT://host:9092`."""
    endpoints = []
    for text in registration.endpoints:
        listener_name, _, address = text.partition("://")
        host, _, port = address.rpartition(":")
        endpoints.append(BrokerEndpoint(listener_name, host.strip("[]"), int(port)))
    return BrokerInfo(broker_id, tuple(endpoints), registration.rack, epoch)


class LiveBrokers:
    """Calls `on_brokers` with all of them: once after `start`, and after each change."""

    def __init__(self, store: FencedStore, on_brokers: Callable[[Brokers], None]) -> None:
        self._store = store
        self._on_brokers = on_brokers
        self._reading = 0  # of several readings under way only the last counts: answers may overtake each other
        self.registered_at: dict[BrokerId, int] = {}  # zxid

    def start(self) -> None:
        self._reading += 1
        self._store.children(paths.BROKER_IDS, partial(self._on_listed, self._reading), watch=self._on_change)

    def _on_change(self, event: WatchEvent) -> None:
        self.start()

    def _on_listed(self, reading: int, listed: Result) -> None:
        ids = sorted(int(name) for name in listed.children if name.isdigit())
        epochs: dict[BrokerId, BrokerEpoch] = {}
        brokers: Brokers = {}
        unread = 2 * len(ids) + 1  # and this call itself

        def on_epoch(broker_id: BrokerId, result: Result) -> None:
            epochs[broker_id] = NO_BROKER_EPOCH if result.stat is None else result.stat.version
            on_part_read()

        def on_registration(broker_id: BrokerId, result: Result) -> None:
            if result.stat is not None:  # else it is gone by now, and the list is read again
                self.registered_at[broker_id] = result.stat.czxid
                try:
                    registration = paths.decode_broker(result.path, result.value)
                    brokers[broker_id] = broker_of(broker_id, registration, NO_BROKER_EPOCH)
                except (MalformedNodeError, ValueError) as error:
                    _LOG.error("broker %d is left out: %s", broker_id, error)
            on_part_read()

        def on_part_read() -> None:
            nonlocal unread
            unread -= 1
            if unread == 0 and reading == self._reading:
                self._on_brokers({found: brokers[found]._replace(epoch=epochs[found]) for found in sorted(brokers)})

        for broker_id in ids:
            # The epoch first: if the broker registers anew in between, the list has changed and is read again.
            self._store.exists(paths.broker_epoch_path(broker_id), partial(on_epoch, broker_id))
            self._store.get(paths.broker_path(broker_id), partial(on_registration, broker_id))
        on_part_read()
