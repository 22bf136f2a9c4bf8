"""What a broker does on its own, by the clock: retention, checkpoints, due flushes, expired producers, the scrub."""

import logging

from ottla.broker.timers import Repeating, Timers
from ottla.core.clock import Background, Clock
from ottla.core.config.config import BrokerConfig
from ottla.core.disk import Disk
from ottla.core.types import Offset, TopicPartition
from ottla.replication.replicas import Replicas
from ottla.storage.flush import Flusher
from ottla.storage.log_manager import LogManager
from ottla.storage.scrub import Damage, Scrubber

_LOG = logging.getLogger("ottla.housekeeping")

_REMOVAL_INTERVAL_MS = 5_000
_FLUSH_INTERVAL_MAX_MS = 1_000
_SCRUB_TICK_MS = 1_000


class Housekeeping:
    """Owned by the broker, from the end of its start to the beginning of its stop."""

    def __init__(
        self,
        timers: Timers,
        log_manager: LogManager,
        flusher: Flusher,
        replicas: Replicas,
        config: BrokerConfig,
        *,
        disk: Disk,
        background: Background,
        clock: Clock,
    ) -> None:
        self._timers = timers
        self._log_manager = log_manager
        self._flusher = flusher
        self._replicas = replicas
        self._config = config
        self._clock = clock
        self._tasks: list[Repeating] = []
        self._scrub_tick: Repeating | None = None
        self._high_watermarks: dict[TopicPartition, Offset] = {}
        self._scrubber = Scrubber(
            disk,
            background,
            logs=log_manager.logs,
            on_damage=_report_damage,
            bytes_per_tick=config.get_int("ottla.log.scrub.bytes.per.second") * _SCRUB_TICK_MS // 1000,
        )

    def start(self) -> None:
        manager = self._log_manager
        for key, work in (
            ("log.retention.check.interval.ms", self._delete_expired),
            ("log.flush.offset.checkpoint.interval.ms", manager.checkpoint_recovery_points),
            ("log.flush.start.offset.checkpoint.interval.ms", manager.checkpoint_log_start_offsets),
            ("replica.high.watermark.checkpoint.interval.ms", self.checkpoint_high_watermarks),
            ("producer.id.expiration.check.interval.ms", self._expire_producers),
            ("ottla.log.scrub.interval.ms", self._begin_scrub),
        ):
            interval_ms = self._config.get_int(key)
            if interval_ms > 0:  # -1 turns it off, where the key allows that
                self._tasks.append(self._timers.every(interval_ms, work))
        self._tasks.append(self._timers.every(_REMOVAL_INTERVAL_MS, self._remove_due))
        # A rolled segment has to become durable soon, also where no flush interval is set.
        flush_interval_ms = min(self._config.get_int("log.flush.scheduler.interval.ms"), _FLUSH_INTERVAL_MAX_MS)
        self._tasks.append(self._timers.every(flush_interval_ms, self._flush_due))

    def stop(self) -> None:
        """Start nothing more, and write the high watermarks a last time."""
        for task in self._tasks:
            task.stop()
        self._end_scrub()
        self.checkpoint_high_watermarks()

    def checkpoint_high_watermarks(self) -> None:
        partitions = self._replicas.partitions.values()
        high_watermarks = {partition.topic_partition: partition.high_watermark for partition in partitions}
        if high_watermarks != self._high_watermarks:
            self._high_watermarks = high_watermarks
            self._log_manager.checkpoint_high_watermarks(high_watermarks)

    def _delete_expired(self) -> None:
        self._log_manager.delete_expired(self._clock(), high_watermark_of=self._high_watermark_of)

    def _high_watermark_of(self, topic_partition: TopicPartition) -> Offset | None:
        partition = self._replicas.partitions.get(topic_partition)
        return None if partition is None else partition.high_watermark

    def _flush_due(self) -> None:
        self._flusher.request_due(self._log_manager.logs(), self._clock())

    def _remove_due(self) -> None:
        self._log_manager.remove_due(self._clock())

    def _expire_producers(self) -> None:
        self._log_manager.expire_producers(self._clock())

    def _begin_scrub(self) -> None:
        """Ticks run only while a round is under way, so that an idle broker sleeps."""
        if self._scrub_tick is not None:
            return
        rounds_before = self._scrubber.rounds_finished

        def tick() -> None:
            if self._scrubber.rounds_finished > rounds_before:
                self._end_scrub()
            else:
                self._scrubber.tick()

        self._scrub_tick = self._timers.every(_SCRUB_TICK_MS, tick)

    def _end_scrub(self) -> None:
        if self._scrub_tick is not None:
            self._scrub_tick.stop()
            self._scrub_tick = None


def _report_damage(damage: Damage) -> None:
    _LOG.error(
        "%s: %s is damaged at %d: %s; restore the file from a copy, or delete the records before it",
        damage.topic_partition,
        damage.path,
        damage.position,
        damage.message,
    )
