"""Replicas in log directories that failed: their brokers live, so others lead what they led.

A broker leaves a notification; the controller says once more who leads what, and the answer names what is offline.
"""

import logging
from collections.abc import Iterable

from ottla.controller.broadcast import Broadcast
from ottla.controller.partition_elections import PartitionElections
from ottla.controller.state import ClusterState
from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import Result
from ottla.core.control import ControlAnswer, LeaderAndIsr
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, TopicPartition

_LOG = logging.getLogger("ottla.controller")


class ReplicaFailures:
    """Owned by one term of the controller."""

    def __init__(self, state: ClusterState, elections: PartitionElections, broadcast: Broadcast) -> None:
        self._state = state
        self._elections = elections
        self._broadcast = broadcast

    def on_notifications(self, found: Iterable[Result]) -> None:
        broker_ids: dict[BrokerId, None] = {}
        for result in found:
            try:
                broker_ids[paths.decode_log_dir_event(result.path, result.value)] = None
            except MalformedNodeError as error:
                _LOG.error("%s", error)
        for broker_id in broker_ids:
            self._broadcast.lead_all(broker_id)

    def on_answer(self, broker_id: BrokerId, request: LeaderAndIsr, answer: ControlAnswer) -> None:
        if answer.error_code != ErrorCode.NONE or not (
            answer.partitions or self._state.has_offline_replicas(broker_id)
        ):
            return
        news: list[TopicPartition] = []
        for topic in request.topics:
            for partition, _, _ in topic.partitions:
                topic_partition = TopicPartition(topic.name, partition)
                error = answer.partitions.get(topic_partition, ErrorCode.NONE)
                is_offline = error == ErrorCode.KAFKA_STORAGE_ERROR
                if self._state.note_replica(broker_id, topic_partition, is_offline=is_offline):
                    news.append(topic_partition)
        if news:
            _LOG.warning("broker %d: %d replicas are offline, or online again", broker_id, len(news))
            self._elections.want(news)
