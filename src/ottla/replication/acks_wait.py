"""A batch that was appended and is not acknowledged yet; its partition says when it is."""

from typing import TYPE_CHECKING

from ottla.core.errors import ErrorCode
from ottla.core.types import LeaderEpoch, Offset

if TYPE_CHECKING:
    from ottla.replication.partition import Partition


class AcksWait:
    """`error_code` is the verdict at the end.

    It belongs to the leader epoch of its append: another leader may have cut the batch off the log, and what is at
    its offset then says nothing about it. With `needs_all_replicas` (acks=all) the high watermark counts, else the
    leader's own durable end, which lags behind the log's end only where a topic is fsynced by `flush.messages`.
    """

    __slots__ = ("error_code", "leader_epoch", "needs_all_replicas", "next_offset", "partition")

    def __init__(
        self, partition: "Partition", *, next_offset: Offset, leader_epoch: LeaderEpoch, needs_all_replicas: bool
    ) -> None:
        self.partition = partition
        self.next_offset = next_offset
        self.leader_epoch = leader_epoch
        self.needs_all_replicas = needs_all_replicas
        self.error_code = ErrorCode.REQUEST_TIMED_OUT
