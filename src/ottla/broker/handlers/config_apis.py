"""The APIs of configs, for the table of what is served. Each handler is imported with its first request."""

from ottla.broker.api import Api, MessageHandler
from ottla.broker.handlers.made_when_asked import made_when_asked
from ottla.broker.metadata_cache import MetadataCache
from ottla.controller.configs import Configs
from ottla.core.config.current import CurrentConfig
from ottla.core.types import BrokerId
from ottla.protocol.apis import ApiKey


def config_apis(configs: Configs, current: CurrentConfig, broker_id: BrokerId, cache: MetadataCache) -> list[Api]:
    def make_describe() -> MessageHandler:
        from ottla.broker.handlers.describe_configs import DescribeConfigsHandler

        return DescribeConfigsHandler(configs, current, broker_id=broker_id).handle

    def make_alter() -> MessageHandler:
        from ottla.broker.config_alterations import ConfigAlterations
        from ottla.broker.handlers.alter_configs import AlterConfigsHandler

        return AlterConfigsHandler(ConfigAlterations(configs, broker_id=broker_id)).handle

    def make_incremental_alter() -> MessageHandler:
        from ottla.broker.config_alterations import ConfigAlterations
        from ottla.broker.handlers.incremental_alter_configs import IncrementalAlterConfigsHandler

        return IncrementalAlterConfigsHandler(ConfigAlterations(configs, broker_id=broker_id)).handle

    def make_list() -> MessageHandler:
        from ottla.broker.handlers.list_config_resources import ListConfigResourcesHandler

        return ListConfigResourcesHandler(cache).handle

    return [
        Api(ApiKey.DESCRIBE_CONFIGS, 1, 4, made_when_asked(make_describe)),
        Api(ApiKey.ALTER_CONFIGS, 0, 2, made_when_asked(make_alter)),
        Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, made_when_asked(make_incremental_alter)),
        Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, made_when_asked(make_list)),
    ]
