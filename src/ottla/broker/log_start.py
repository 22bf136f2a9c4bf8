"""Loads every log at a start, on threads, and makes durable again what recovery kept. No client is served yet."""

from collections.abc import Iterable, Sequence
from functools import partial

from ottla.broker.log_settings import log_config_of
from ottla.broker.ports import Threads
from ottla.core.clock import Clock
from ottla.core.cluster import TopicImage
from ottla.core.config.config import BrokerConfig, TopicConfig
from ottla.core.errors import StorageError
from ottla.storage.duplicate_logs import DuplicateLog
from ottla.storage.log_manager import LogManager


def load_logs(
    manager: LogManager, images: Sequence[TopicImage], config: BrokerConfig, *, clock: Clock, background: Threads
) -> list[str]:
    """Blocks, so call it in the background; returns lines for the broker's log."""
    if manager.ignores_case():
        _refuse_names_alike(image.name for image in images)
    defaults = log_config_of(TopicConfig.parse({}, config))
    configs = {image.name: log_config_of(TopicConfig.of_stored(image.configs, config)[0]) for image in images}
    threads = config.get_int("num.recovery.threads.per.data.dir") * len(config.log_dirs)
    notes = manager.load(
        clock(),
        config_of=lambda topic: configs.get(topic, defaults),
        topic_ids={image.name: image.topic_id for image in images},
        run_all=partial(background.map, threads=threads),
    )
    _flush_recovered(manager, clock)
    return notes


def _refuse_names_alike(names: Iterable[str]) -> None:
    """Such topics come from a case-sensitive file system: here both would write into one folder."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise DuplicateLog(
                f"topics {other!r} and {name!r} are one folder on this file system, which ignores upper and lower case;"
                " use a case-sensitive volume for log.dirs"
            )


def _flush_recovered(manager: LogManager, clock: Clock) -> None:
    """What recovery kept may have been acknowledged and read: make it durable before the first request comes."""
    for log in manager.logs():
        if log.unflushed_messages >= log.config.flush_messages:
            try:
                job = log.start_flush()
                if job is not None:
                    job.run()
                    log.finish_flush(job, now_ms=clock())
            except StorageError as error:
                manager.fail_log(log, error)
