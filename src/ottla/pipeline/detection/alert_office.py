"""Alerts to the topic `ml_alert`: what is new or changed, and what no longer holds, keyed by the subject.

At least once: a batch that is run again may send its alerts again, and `alert_id` with what it says tells repeats.
"""

from collections.abc import Iterable

from ottla import Producer
from ottla.clients.admin import Admin
from ottla.clients.errors import OperationFailed
from ottla.clients.topics import NewTopic
from ottla.core.errors import ErrorCode
from ottla.pipeline.detection.alerts import ALERT_TOPIC


class AlertOffice:
    """Sends messages, and makes the topic with the first of them. Owned by the job that has them."""

    def __init__(self, bootstrap: str, *, partitions: int) -> None:
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._is_there = False

    def send(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """Key and value of each. Returns when the cluster has them all."""
        waiting = list(messages)
        if not waiting:
            return
        self._make_topic()
        # Alerts are rare: a connection that is kept for them would be idle for most of its life.
        with Producer(bootstrap_servers=self._bootstrap) as producer:
            sent = [producer.send(ALERT_TOPIC, value, key=subject.encode()) for subject, value in waiting]
            producer.flush()
            for handle in sent:
                handle.result()

    def _make_topic(self) -> None:
        if self._is_there:
            return
        with Admin(bootstrap_servers=self._bootstrap) as admin:
            try:
                admin.create_topics([NewTopic(ALERT_TOPIC, self._partitions)])
            except OperationFailed as error:
                codes = {failure.error_code for failure in error.failures.values()}
                if codes != {ErrorCode.TOPIC_ALREADY_EXISTS}:
                    raise
        self._is_there = True
