"""One life of a broker core with topics, groups and deletions, as one line: what it did to its disk, and in what order.

Run by a test as a process, which has a hash seed of its own.
"""

import hashlib
import sys
from pathlib import Path
from typing import Any

from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.offset_commit import OffsetCommitResponse
from ottla.testing.simulated_disk import SimulatedDisk
from tests.broker.rig import Rig
from tests.broker.test_group_coordination import COMMIT_VERSION, commit_request
from tests.storage.log_making import batch

OPERATIONS = ("make_dirs", "rename", "remove", "fsync_dir", "write_atomically", "open_append", "read")


class NotingDisk(SimulatedDisk):
    """Writes down each operation with its arguments."""

    def __init__(self) -> None:
        super().__init__(7)
        self.noted: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in OPERATIONS:
            return found

        def note(*arguments: Any) -> Any:
            self.noted.append(f"{name}{arguments}")
            return found(*arguments)

        return note


def main(folder: str) -> None:
    disk = NotingDisk()
    rig = Rig(Path(folder), {"offsets.topic.num.partitions": "3"}, disk=disk, directories=("/a", "/b", "/c"))
    topics = ["orders", "payments", "invoices", "returns"]
    for topic in topics:
        rig.create_topic(topic, 5, flush_messages="1")
        for partition in range(5):
            rig.send_produce((topic, partition, batch(topic.encode())))
    rig.settle()
    rig.ask(FindCoordinatorRequest(key="one"), FindCoordinatorResponse, 3)
    for number, group_id in enumerate(("one", "two", "three")):
        request = commit_request(number, group_id=group_id)
        rig.ask(request, OffsetCommitResponse, COMMIT_VERSION)
    rig.pump.call(rig.topics.delete, "orders")
    rig.pump.call(rig.topics.delete, "returns")
    for _ in range(100):
        rig.loop.run_for(1000)
        rig.settle()
    rig.run(rig.core.stop())
    digest = hashlib.sha256("\n".join(disk.noted).encode()).hexdigest()
    print(f"{digest} of {len(disk.noted)} operations")


if __name__ == "__main__":
    main(sys.argv[1])
