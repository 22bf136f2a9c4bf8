"""Brokers that come and go, one change after the other: who goes loses its leaderships, who comes gets the picture.

A broker that registered anew is one that went and came: what it led is led by others before it is let in again.
"""

import logging
from collections.abc import Iterable

from ottla.controller.broadcast import Broadcast
from ottla.controller.deltas import BrokersChanged
from ottla.controller.live_brokers import Brokers
from ottla.controller.partition_elections import PartitionElections
from ottla.controller.state import ClusterState
from ottla.controller.topic_deletions import TopicDeletions
from ottla.core.cluster import BrokerInfo
from ottla.core.types import BrokerId

_LOG = logging.getLogger("ottla.controller")


class BrokerChanges:
    """Owned by one term of the controller."""

    def __init__(
        self, state: ClusterState, elections: PartitionElections, broadcast: Broadcast, deletions: TopicDeletions
    ) -> None:
        self._state = state
        self._elections = elections
        self._broadcast = broadcast
        self._deletions = deletions
        self._is_busy = False
        self._latest: Brokers | None = None

    def on_brokers(self, brokers: Brokers) -> None:
        """These live now."""
        self._latest = brokers
        if not self._is_busy:
            self._work()

    def _work(self) -> None:
        brokers, self._latest = self._latest, None
        if brokers is None:
            return
        known = self._state.brokers
        went = [found for found, broker in known.items() if not _is_same(broker, brokers.get(found))]
        came = [broker for found, broker in brokers.items() if not _is_same(broker, known.get(found))]
        if went:
            self._go(went)
        if came:
            # Also one that went before: as long as the write of an election is open, the picture may say that it leads.
            self._is_busy = True
            self._elections.when_idle(lambda: self._come_late(came))

    def _come_late(self, came: list[BrokerInfo]) -> None:
        self._is_busy = False
        self._come(came)
        self._work()

    def _go(self, went: list[BrokerId]) -> None:
        _LOG.info("brokers %s are gone", went)
        delta = BrokersChanged(went=tuple(went))
        self._state.apply(delta)
        self._broadcast.brokers_changed(delta)
        for broker_id in went:
            self._deletions.on_broker_went(broker_id)
        self._elections.want(self._state.suspicious_partitions())

    def _come(self, came: Iterable[BrokerInfo]) -> None:
        delta = BrokersChanged(came=tuple(came))
        ids = [broker.broker_id for broker in delta.came]
        _LOG.info("brokers %s have come", ids)
        self._state.apply(delta)
        self._broadcast.brokers_changed(delta)
        for broker_id in ids:
            self._deletions.on_broker_came(broker_id)
        self._broadcast.send_picture(ids)
        self._elections.want(self._state.suspicious_partitions())


def _is_same(broker: BrokerInfo, other: BrokerInfo | None) -> bool:
    return other is not None and broker.epoch == other.epoch
