"""What becomes of a request to move a partition's replicas. Pure: looks at an image and who is alive, changes nothing.

An assignment that is the present one is done at once. Replicas can't be copied to other brokers yet, so anything else
is refused, and no reassignment is ever in progress.
"""

from collections.abc import Collection, Sequence

from ottla.controller.placement import check_replicas
from ottla.controller.topic_faults import TopicFault, unknown_partition, unknown_topic
from ottla.core.cluster import TopicImage
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId


def decide_reassignment(
    image: TopicImage | None,
    name: str,
    partition: int,
    target: Sequence[BrokerId] | None,
    *,
    live: Collection[BrokerId],
    allow_replication_factor_change: bool,
) -> TopicFault | None:
    """None: the partition is where it shall be. A `target` of None cancels the reassignment that is in progress."""
    if image is None:
        return unknown_topic(name)
    state = image.partitions.get(partition)
    if state is None:
        return unknown_partition(name, partition)
    if target is None:
        return TopicFault(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{name}-{partition}: no reassignment is in progress to be cancelled"
        )
    wanted = tuple(target)
    fault = check_replicas({partition: wanted}, live)
    if fault is not None:
        return fault
    if not allow_replication_factor_change and len(wanted) != len(state.replicas):
        return TopicFault(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{name}-{partition}: {len(wanted)} replicas asked for, it has {len(state.replicas)}, "
            "and the request does not allow that to change",
        )
    if wanted != state.replicas:
        return TopicFault(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{name}-{partition}: its replicas are on {list(state.replicas)} and can't be moved to {list(wanted)}: "
            "replication between brokers is not served",
        )
    return None
