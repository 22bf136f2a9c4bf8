"""Loading the logs at a start: what keeps a broker from it."""

import pytest

from ottla.broker.log_start import load_logs
from ottla.core.cluster import TopicImage
from ottla.core.config.config import BrokerConfig
from ottla.storage.duplicate_logs import DuplicateLog
from ottla.testing.simulated_disk import SimulatedDisk
from tests.storage.hand_driven import HandBackground
from tests.storage.log_making import NOW_MS
from tests.storage.managed_logs import ManagedLogs


class CaseIgnoringDisk(SimulatedDisk):
    def exists(self, path: str) -> bool:
        """As macOS's file system answers."""
        return super().exists(path.lower())


def load(disk: SimulatedDisk, *names: str) -> list[str]:
    images = [TopicImage(name, bytes(16), {}, {}) for name in names]
    return load_logs(
        ManagedLogs(disk).manager,
        images,
        BrokerConfig.parse({"log.dirs": "/a"}),
        clock=lambda: NOW_MS,
        background=HandBackground(),
    )


def test_topics_that_would_share_a_folder_keep_a_broker_from_starting() -> None:
    with pytest.raises(DuplicateLog, match="'Orders' and 'orders' are one folder on this file system"):
        load(CaseIgnoringDisk(), "Orders", "payments", "orders")
    assert load(CaseIgnoringDisk(), "Orders", "payments") == []
    assert load(SimulatedDisk(), "Orders", "orders") == []
