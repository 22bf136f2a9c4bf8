"""The cluster as a new controller finds it."""

from typing import NamedTuple

from ottla.core.cluster import BrokerInfo, TopicImage
from ottla.core.types import BrokerId


class Picture(NamedTuple):
    """The cluster as the tree has it."""

    brokers: dict[BrokerId, BrokerInfo]
    images: dict[str, TopicImage]
    noted_deletions: tuple[str, ...]
