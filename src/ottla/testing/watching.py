"""Waits for records, the state of a group, or a committed offset on a broker. An error means "not yet"."""

from collections.abc import Callable
from typing import Final, TypeVar

from ottla.clients.admin_groups import GroupDescription
from ottla.clients.errors import ClientError
from ottla.core.types import Offset, TopicPartition
from ottla.testing.reading import DirectCluster, StoredRecord, TopicReader, committed_offsets, describe_group
from ottla.testing.waiting import wait_until

_REQUEST_TIMEOUT_MIN_MS: Final = 200

T = TypeVar("T")


class _Looker:
    """Looks again and again; reconnects after every failure, since the broker may be at another port."""

    def __init__(self, port: Callable[[], int], timeout_ms: int) -> None:
        self.failure: ClientError | None = None
        self._port = port
        self._request_timeout_ms = max(_REQUEST_TIMEOUT_MIN_MS, timeout_ms)
        self._cluster: DirectCluster | None = None

    def __enter__(self) -> "_Looker":
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def look(self, at: Callable[[DirectCluster], T]) -> T | None:
        """None if the look failed; `failure` says why."""
        if self._cluster is None:
            # A silent broker must not make the wait longer than its timeout.
            self._cluster = DirectCluster(self._port(), request_timeout_ms=self._request_timeout_ms)
            self._cluster.retry_timeout_ms = 0  # the wait around this is the one that tries again
        try:
            result = at(self._cluster)
        except ClientError as error:
            self.failure = error
            self._drop()
            return None
        self.failure = None
        return result

    def _drop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None


def wait_for_records(
    port: Callable[[], int],
    topic: str,
    count: int,
    *,
    where: Callable[[StoredRecord], bool] | None,
    timeout_ms: int,
) -> list[StoredRecord]:
    reader: TopicReader | None = None

    def look(cluster: DirectCluster) -> list[StoredRecord]:
        nonlocal reader
        if reader is None:
            reader = TopicReader(cluster, topic)
        reader.read()
        return [record for record in reader.records if where is None or where(record)]

    found: list[StoredRecord] = []

    def condition() -> bool:
        nonlocal found, reader
        looked = looker.look(look)
        if looked is None:
            if reader is not None:
                reader.close()
            reader = None
            return count <= 0
        found = looked
        return len(found) >= count

    def seen() -> str:
        if looker.failure is not None:
            return f"it could not be read: {looker.failure}"
        per_partition = {} if reader is None else reader.counts()
        shown = "".join(f"\n  {record}" for record in found[-3:])
        of_all = f" of {sum(per_partition.values())}" if where is not None else ""
        return f"there were {len(found)}{of_all}, by partition {per_partition}" + (
            f"; the last:{shown}" if shown else ""
        )

    matching = " that match" if where is not None else ""
    with _Looker(port, timeout_ms) as looker:
        try:
            wait_until(condition, timeout_ms=timeout_ms, what=f"{topic} holds {count} records{matching}", seen=seen)
        finally:
            if reader is not None:
                reader.close()
    return found


def wait_for_group(
    port: Callable[[], int], group: str, *, state: str | None, members: int | None, timeout_ms: int
) -> GroupDescription:
    last: GroupDescription | None = None

    def condition() -> bool:
        nonlocal last
        last = looker.look(lambda cluster: describe_group(cluster, group))
        if last is None:
            return False
        return (state is None or last.state.lower() == state.lower()) and (
            members is None or len(last.members) == members
        )

    def seen() -> str:
        if last is not None:
            who = ", ".join(f"{member.client_id} with {len(member.assignment)} partitions" for member in last.members)
            return f"it was {last.state} with {len(last.members)} members" + (f": {who}" if who else "")
        return f"it could not be described: {looker.failure}" if looker.failure else "there was no such group"

    wanted = [f"is {state}"] if state is not None else []
    wanted += [f"has {members} members"] if members is not None else []
    with _Looker(port, timeout_ms) as looker:
        wait_until(
            condition, timeout_ms=timeout_ms, what=f"group {group} {' and '.join(wanted) or 'exists'}", seen=seen
        )
    assert last is not None
    return last


def wait_for_commit(
    port: Callable[[], int], group: str, topic_partition: TopicPartition, offset: Offset, *, timeout_ms: int
) -> Offset:
    committed: dict[TopicPartition, Offset] = {}

    def condition() -> bool:
        nonlocal committed
        committed = looker.look(lambda cluster: committed_offsets(cluster, group)) or {}
        return committed.get(topic_partition, -1) >= offset

    def seen() -> str:
        if looker.failure is not None:
            return f"the offsets could not be read: {looker.failure}"
        return "the group had committed " + (
            ", ".join(f"{at}: {reached}" for at, reached in sorted(committed.items())) or "nothing"
        )

    with _Looker(port, timeout_ms) as looker:
        wait_until(
            condition,
            timeout_ms=timeout_ms,
            what=f"group {group} has committed {offset} in {topic_partition}",
            seen=seen,
        )
    return committed[topic_partition]
