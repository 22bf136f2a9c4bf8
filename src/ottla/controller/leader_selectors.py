"""Who leads a partition next: Kafka's selectors as pure functions.

Each gives the new leader with the in-sync replicas beside it, or None if no replica may lead. `online` are the replicas
on brokers that are alive, not shutting down, with a log directory that works. A leader other than one of the in-sync
replicas has not all that was acknowledged, so only an unclean election takes one.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ottla.core.cluster import LossyReplica
from ottla.core.types import BrokerId


class Selection(NamedTuple):
    """The leader is always one of `isr`."""

    leader: BrokerId
    isr: tuple[BrokerId, ...]


def select_offline(
    replicas: Sequence[BrokerId],
    isr: Sequence[BrokerId],
    *,
    online: Collection[BrokerId],
    is_unclean_allowed: bool,
    eligible: Sequence[BrokerId] = (),
    lossy: Sequence[LossyReplica] = (),
) -> Selection | None:
    """For a partition whose leader is gone: the first in-sync replica that is online, in the order of the assignment.

    If there is none, an eligible one: it has all that is committed, too (KIP-966). If all of these are lossy, the one
    that has the most left: nothing that any of them still has is lost with it, so no other one will do. An unclean
    election takes any replica that is online if there is no such one; what only the others had is lost.
    """
    leader = _first(replicas, online, isr)
    if leader is not None:
        return Selection(leader, tuple([replica for replica in isr if replica in online]))
    leader = _first(replicas, online, eligible)
    if leader is None and lossy and not isr and not eligible:
        leader = _first(replicas, online, _least_lossy(lossy))
    if leader is None and is_unclean_allowed:
        leader = _first(replicas, online, replicas)
    return None if leader is None else Selection(leader, (leader,))


def select_reassigned(
    targets: Sequence[BrokerId], isr: Sequence[BrokerId], *, online: Collection[BrokerId]
) -> Selection | None:
    """For a partition that moves to `targets` and whose leader is not one of them."""
    leader = _first(targets, online, isr)
    return None if leader is None else Selection(leader, tuple(isr))


def select_preferred(
    replicas: Sequence[BrokerId], isr: Sequence[BrokerId], *, online: Collection[BrokerId]
) -> Selection | None:
    """The first replica of the assignment, if it can lead."""
    leader = _first(replicas[:1], online, isr)
    return None if leader is None else Selection(leader, tuple(isr))


def select_controlled_shutdown(
    replicas: Sequence[BrokerId],
    isr: Sequence[BrokerId],
    *,
    online: Collection[BrokerId],
    shutting_down: Collection[BrokerId],
) -> Selection | None:
    """For a partition whose leader wants to stop; it leaves the in-sync replicas with the leadership."""
    leader = _first(replicas, online, [replica for replica in isr if replica not in shutting_down])
    if leader is None:
        return None
    return Selection(leader, tuple([replica for replica in isr if replica not in shutting_down]))


def select_same(leader: BrokerId, isr: Sequence[BrokerId]) -> Selection | None:
    """No-op: whoever leads goes on."""
    return Selection(leader, tuple(isr)) if leader in isr else None


def _first(candidates: Sequence[BrokerId], online: Collection[BrokerId], able: Collection[BrokerId]) -> BrokerId | None:
    for candidate in candidates:
        if candidate in online and candidate in able:
            return candidate
    return None


def _least_lossy(lossy: Sequence[LossyReplica]) -> list[BrokerId]:
    """Those with the longest history: the last epoch decides, then the end of the log."""
    most = max((one.last_epoch, one.log_end_offset) for one in lossy)
    return [one.broker_id for one in lossy if (one.last_epoch, one.log_end_offset) == most]
