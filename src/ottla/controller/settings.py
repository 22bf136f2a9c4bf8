"""The settings that elections depend on, by Kafka's names."""

from collections.abc import Mapping

from ottla.core.config.config import BrokerConfig

UNCLEAN = "unclean.leader.election.enable"
AUTO_REBALANCE = "auto.leader.rebalance.enable"
CHECK_INTERVAL_SECONDS = "leader.imbalance.check.interval.seconds"
MIN_ISR = "min.insync.replicas"
IMBALANCE_PERCENTAGE = "leader.imbalance.per.broker.percentage"


def is_unclean_allowed(configs: Mapping[str, str], config: BrokerConfig) -> bool:
    """Whether a replica that is not in sync may lead the partitions of a topic with these entries."""
    own = configs.get(UNCLEAN)
    return _flag(config, UNCLEAN, default=False) if own is None else own.strip().lower() == "true"


def min_insync_replicas(configs: Mapping[str, str], config: BrokerConfig) -> int:
    """Of a topic with these entries; where its own entry is malformed, the broker's holds, as for its logs."""
    own = configs.get(MIN_ISR, "").strip()
    return int(own) if own.isdecimal() else _number(config, MIN_ISR, default=1)


def is_balanced_automatically(config: BrokerConfig) -> bool:
    return _flag(config, AUTO_REBALANCE, default=True)


def check_interval_ms(config: BrokerConfig) -> int:
    return 1_000 * _number(config, CHECK_INTERVAL_SECONDS, default=300)


def imbalance_percentage(config: BrokerConfig) -> int:
    return _number(config, IMBALANCE_PERCENTAGE, default=10)


def _flag(config: BrokerConfig, name: str, *, default: bool) -> bool:
    return config.get_bool(name) if name in config.definition.keys else default


def _number(config: BrokerConfig, name: str, *, default: int) -> int:
    return config.get_int(name) if name in config.definition.keys else default
