"""DescribeConfigs 1-4: topics, this broker, the entries for all brokers, and the levels of loggers.

A key that is not set shows the value in force with the place it comes from, also where Kafka shows null
(`log.retention.ms`, which `log.retention.hours` gives).
"""

from collections.abc import Callable, Iterable

from ottla.broker.api import RequestContext
from ottla.broker.config_alterations import ResourceType, unserved_resource, wrong_logger_owner
from ottla.broker.logger_levels import logger_levels
from ottla.controller.config_edits import ConfigFault
from ottla.controller.configs import Configs
from ottla.core.cluster import TopicImage
from ottla.core.config.config import BrokerConfig, ConfigEntry, ConfigSource, Configuration, TopicConfig
from ottla.core.config.current import CurrentConfig
from ottla.core.config.definition import DynamicMode
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_UNKNOWN_TYPE = 0

Results = list[DescribeConfigsResourceResult]


class DescribeConfigsHandler:
    def __init__(self, configs: Configs, current: CurrentConfig, *, broker_id: int) -> None:
        self._configs = configs
        self._current = current
        self._broker_id = broker_id

    def handle(self, request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
        description = _Description(
            self._current.value, with_synonyms=request.include_synonyms, with_docs=request.include_documentation
        )
        results = []
        for resource in request.resources:
            described = self._describe(resource, description)
            result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
            if isinstance(described, ConfigFault):
                result.error_code, result.error_message = described
            else:
                result.error_message = None
                result.configs = described
            results.append(result)
        return DescribeConfigsResponse(results=results)

    def _describe(self, resource: DescribeConfigsResource, description: "_Description") -> Results | ConfigFault:
        name = resource.resource_name
        # Null and an empty list both ask for everything, as they do in Kafka.
        wanted = frozenset(resource.configuration_keys or ())
        if resource.resource_type == ResourceType.TOPIC:
            image = self._configs.find_topic(name)
            return image if isinstance(image, ConfigFault) else description.of_topic(image, wanted)
        if resource.resource_type == ResourceType.BROKER:
            broker = self._configs.find_broker(name)
            if isinstance(broker, ConfigFault):
                return broker
            if broker is None:
                return description.of_all_brokers(self._configs.stored.cluster_wide, wanted)
            return description.of_broker(wanted)
        if resource.resource_type == ResourceType.BROKER_LOGGER:
            return wrong_logger_owner(name, self._broker_id) or _describe_loggers(wanted)
        return unserved_resource(resource.resource_type)


class _Description:
    """For one request: entries that topics have from the broker are the same for all, and made once."""

    def __init__(self, broker: BrokerConfig, *, with_synonyms: bool, with_docs: bool) -> None:
        self._broker = broker
        self._with_synonyms = with_synonyms
        self._with_docs = with_docs
        self._topic_defaults: dict[str, DescribeConfigsResourceResult] = {}

    def of_topic(self, image: TopicImage, wanted: frozenset[str]) -> Results:
        config, _ = TopicConfig.of_stored(image.configs, self._broker)

        def result_of(name: str) -> DescribeConfigsResourceResult:
            if name in image.configs:
                return self._result(config.entry(name))
            if name not in self._topic_defaults:
                self._topic_defaults[name] = self._result(config.entry(name))
            return self._topic_defaults[name]

        return _each(config, wanted, result_of)

    def of_broker(self, wanted: frozenset[str]) -> Results:
        return _each(self._broker, wanted, lambda name: self._result(self._broker.entry(name)))

    def of_all_brokers(self, entries: Iterable[str], wanted: frozenset[str]) -> Results:
        """Only what was set for all brokers: the rest is each broker's own."""
        results = []
        for name in entries:
            if (wanted and name not in wanted) or name not in self._broker.definition.keys:
                continue
            entry = self._broker.entry(name)
            origins = tuple(
                origin
                for origin in entry.origins
                if origin.name == name and origin.source is ConfigSource.DYNAMIC_DEFAULT_BROKER
            )
            if origins:  # else the entry can't be used, and is not in force
                first = origins[0]
                results.append(self._result(ConfigEntry(entry.key, first.value, first.source, origins)))
        return results

    def _result(self, entry: ConfigEntry) -> DescribeConfigsResourceResult:
        key = entry.key
        return DescribeConfigsResourceResult(
            name=key.name,
            value=None if key.is_sensitive else entry.value,
            read_only=key.dynamic is DynamicMode.READ_ONLY,
            config_source=entry.source,
            is_sensitive=key.is_sensitive,
            synonyms=[
                DescribeConfigsSynonym(
                    name=origin.name, value=None if key.is_sensitive else origin.value, source=origin.source
                )
                for origin in (entry.origins if self._with_synonyms else ())
            ],
            config_type=key.type,
            documentation=key.doc if self._with_docs else None,
        )


def _each(
    config: Configuration, wanted: frozenset[str], result_of: Callable[[str], DescribeConfigsResourceResult]
) -> Results:
    return [result_of(name) for name in config.definition.keys if not wanted or name in wanted]


def _describe_loggers(wanted: frozenset[str]) -> Results:
    return [
        DescribeConfigsResourceResult(
            name=name,
            value=level,
            config_source=ConfigSource.DYNAMIC_BROKER_LOGGER,
            config_type=_UNKNOWN_TYPE,
            documentation=None,
        )
        for name, level in logger_levels().items()
        if not wanted or name in wanted
    ]
