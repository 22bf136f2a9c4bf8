"""Which APIs this broker serves, in which versions, and what each handler needs."""

from random import Random

from ottla.broker.api import Api, Dispatcher
from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.handlers import fetch, produce
from ottla.broker.handlers.api_versions import ApiVersionsHandler
from ottla.broker.handlers.create_topics import CreateTopicsHandler
from ottla.broker.handlers.delete_records import DeleteRecordsHandler
from ottla.broker.handlers.delete_topics import DeleteTopicsHandler
from ottla.broker.handlers.find_coordinator import FindCoordinatorHandler
from ottla.broker.handlers.init_producer_id import InitProducerIdHandler
from ottla.broker.handlers.list_offsets import ListOffsetsHandler
from ottla.broker.handlers.metadata import MetadataHandler
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.producer_ids import ProducerIds
from ottla.controller.topics import Topics
from ottla.core.clock import Background, Clock
from ottla.core.config.config import BrokerConfig
from ottla.protocol.apis import ApiKey
from ottla.replication.replicas import Replicas

_SESSION_ID_MAX = 2**31 - 1


def serve_all(
    dispatcher: Dispatcher,
    *,
    config: BrokerConfig,
    replicas: Replicas,
    cache: MetadataCache,
    topics: Topics,
    producer_ids: ProducerIds,
    background: Background,
    clock: Clock,
    random: Random,
) -> None:
    """Fill the dispatcher's table."""
    sessions = FetchSessions(
        slots=config.get_int("max.incremental.fetch.session.cache.slots"),
        new_id=lambda: random.randint(1, _SESSION_ID_MAX),
    )
    fetch_handler = fetch.FetchHandler(replicas, cache, sessions, clock, max_bytes=config.get_int("fetch.max.bytes"))
    produce_handler = produce.ProduceHandler(replicas, background, clock)
    metadata = MetadataHandler(cache, topics, auto_create=config.get_bool("auto.create.topics.enable"))
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
            Api(ApiKey.METADATA, 0, 12, metadata.handle),
            Api(ApiKey.FIND_COORDINATOR, 0, 4, FindCoordinatorHandler(cache, config.get_int("broker.id")).handle),
            Api(ApiKey.API_VERSIONS, 0, 4, ApiVersionsHandler(dispatcher).handle),
            Api(ApiKey.CREATE_TOPICS, 2, 7, CreateTopicsHandler(topics).handle),
            Api(ApiKey.DELETE_TOPICS, 1, 6, DeleteTopicsHandler(cache, topics).handle),
            Api(ApiKey.DELETE_RECORDS, 0, 2, DeleteRecordsHandler(replicas).handle),
            Api(ApiKey.INIT_PRODUCER_ID, 0, 4, InitProducerIdHandler(producer_ids).handle),
        ]
    )
