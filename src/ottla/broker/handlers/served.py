"""Which APIs this broker serves, in which versions, and what each handler needs."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from ottla.broker.api import Api, Dispatcher
from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.handlers import fetch, produce
from ottla.broker.handlers.api_versions import ApiVersionsHandler
from ottla.broker.handlers.config_apis import config_apis
from ottla.broker.handlers.delete_records import DeleteRecordsHandler
from ottla.broker.handlers.groups_on_demand import groups_on_demand
from ottla.broker.handlers.init_producer_id import InitProducerIdHandler
from ottla.broker.handlers.list_offsets import ListOffsetsHandler
from ottla.broker.handlers.topic_apis import topic_apis
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.producer_ids import ProducerIds
from ottla.controller.configs import Configs
from ottla.controller.topics import Topics
from ottla.core.clock import Background, Clock
from ottla.core.config.config import BrokerConfig
from ottla.core.config.current import CurrentConfig
from ottla.protocol.apis import ApiKey
from ottla.replication.replicas import Replicas
from ottla.storage.log_manager import LogManager

if TYPE_CHECKING:
    from ottla.broker.group_coordination import GroupCoordination
    from ottla.broker.metrics.snapshot import Sources

_SESSION_ID_MAX = 2**31 - 1


def serve_all(
    dispatcher: Dispatcher,
    *,
    config: BrokerConfig,
    replicas: Replicas,
    cache: MetadataCache,
    topics: Topics,
    groups: "Callable[[], GroupCoordination]",
    log_manager: LogManager,
    producer_ids: ProducerIds,
    background: Background,
    clock: Clock,
    random: Random,
    metrics: "Sources | None" = None,
    configs: Configs,
    current: CurrentConfig,
) -> None:
    """Fill the dispatcher's table."""
    sessions = FetchSessions(
        slots=config.get_int("max.incremental.fetch.session.cache.slots"),
        partitions_max=config.get_int("ottla.fetch.session.partitions.max"),
        new_id=lambda: random.randint(1, _SESSION_ID_MAX),
    )
    if metrics is not None:
        metrics.fetch_sessions = sessions
    fetch_handler = fetch.FetchHandler(
        replicas,
        cache,
        sessions,
        clock,
        max_bytes=config.get_int("fetch.max.bytes"),
        on_answered=None if metrics is None else metrics.requests.count_fetched,
    )
    produce_handler = produce.ProduceHandler(
        replicas, background, clock, on_answered=None if metrics is None else metrics.requests.count_produced
    )
    dispatcher.serve(
        [
            Api(ApiKey.PRODUCE, 0, produce.LAST_SERVED_VERSION, handle_frame=produce_handler.handle_frame),
            Api(
                ApiKey.FETCH,
                fetch.FIRST_SERVED_VERSION,
                fetch.LAST_SERVED_VERSION,
                handle_frame=fetch_handler.handle_frame,
            ),
            Api(ApiKey.LIST_OFFSETS, 1, 8, ListOffsetsHandler(replicas, background).handle),
            Api(ApiKey.API_VERSIONS, 0, 4, ApiVersionsHandler(dispatcher).handle),
            Api(ApiKey.DELETE_RECORDS, 0, 2, DeleteRecordsHandler(replicas).handle),
            Api(ApiKey.INIT_PRODUCER_ID, 0, 4, InitProducerIdHandler(producer_ids).handle),
            *groups_on_demand(groups, cache),
            *topic_apis(
                config, cache=cache, topics=topics, replicas=replicas, log_manager=log_manager, background=background
            ),
            *config_apis(configs, current, config.get_int("broker.id"), cache),
        ]
    )
