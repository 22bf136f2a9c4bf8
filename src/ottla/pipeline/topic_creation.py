"""Creates topics that are missing: those of the app, of dead letters and of alerts."""

from collections.abc import Iterable

from ottla.clients.admin import Admin
from ottla.clients.errors import OperationFailed
from ottla.clients.topics import NewTopic
from ottla.core.errors import ErrorCode
from ottla.pipeline.topics import TOPIC_NAMES


def create_app_topics(admin: Admin, *, partitions: int, configs: tuple[tuple[str, str], ...] = ()) -> list[str]:
    """The app's topics that were missing; the names of the new ones."""
    return create_missing_topics(admin, TOPIC_NAMES, partitions=partitions, configs=configs)


def create_missing_topics(
    admin: Admin, names: Iterable[str], *, partitions: int, configs: tuple[tuple[str, str], ...] = ()
) -> list[str]:
    """The names of the new ones; topics that exist stay as they are."""
    try:
        return list(admin.create_topics([NewTopic(name, partitions, configs=configs) for name in names]))
    except OperationFailed as failed:
        for error in failed.failures.values():
            if error.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise error from failed
        return [name for name in failed.outcomes if name not in failed.failures]
