"""Reading as scenarios do it: so many records, until something holds, by one or by members in turns."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from tests.scenarios.messages import Message
from tests.scenarios.port import Client, Consumes, Joining, Member, Received, Writer

WITHIN_S = 60.0


def take(reader: Consumes, count: int, *, within_s: float = WITHIN_S) -> list[Received]:
    """Exactly so many."""
    taken: list[Received] = []
    deadline_s = time.monotonic() + within_s
    while len(taken) < count:
        assert time.monotonic() < deadline_s, f"{len(taken)} of {count}"
        taken += reader.poll(count - len(taken))
    return taken


def messages_of(records: Iterable[Received]) -> list[Message]:
    return [record.message for record in records]


def places_of(records: Iterable[Received]) -> list[tuple[int, int]]:
    return sorted((record.partition, record.offset) for record in records)


def first_that_comes(reader: Consumes, writer: Writer, topic: str) -> Received:
    """Writes until something is read: when a position at the end becomes a number is the client's own affair."""
    deadline_s = time.monotonic() + WITHIN_S
    while not (records := reader.poll()):
        assert time.monotonic() < deadline_s, "nothing came"
        writer.send(topic, [Message(None, b"new")])
    return records[0]


class Group:
    """Members of one group on one topic, polled by turns in one thread, and what they read."""

    def __init__(self, address: str, topic: str, name: str, stack: ExitStack) -> None:
        self._address = address
        self._topic = topic
        self._name = name
        self._stack = stack
        self.members: list[Member] = []
        self.read: dict[Member, list[Received]] = {}

    def join(self, client: Client, **options: Any) -> Member:
        member = client.member(self._address, self._topic, self._name, Joining(**options))
        self._stack.callback(self._close_if_there, member)
        self.members.append(member)
        self.read[member] = []
        return member

    def leave(self, member: Member) -> None:
        self.members.remove(member)
        member.close()

    def _close_if_there(self, member: Member) -> None:
        if member in self.members:
            self.leave(member)

    @property
    def records(self) -> list[Received]:
        """All that was read, by those who left too."""
        return [record for records in self.read.values() for record in records]

    def shares(self) -> list[int]:
        return [len(member.partitions) for member in self.members]

    def poll_until(self, condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + 1.5 * WITHIN_S
        while not condition():
            assert time.monotonic() < deadline_s, [(member.partitions, member.told) for member in self.members]
            for member in self.members:
                self.read[member] += member.poll()

    def share(self, partition_count: int) -> None:
        """Until each has as many as the others, and each partition has one owner."""
        each = partition_count // len(self.members)

        def is_shared() -> bool:
            owned = [member.partitions for member in self.members]
            return all(len(part) == each for part in owned) and len(set().union(*owned)) == partition_count

        self.poll_until(is_shared)


@contextmanager
def group_of(address: str, topic: str, name: str) -> Iterator[Group]:
    with ExitStack() as stack:
        yield Group(address, topic, name, stack)


def fill(client: Client, address: str, topic: str, partition_count: int, *, each: int = 10) -> None:
    """So many small records more into each partition."""
    with closing(client.writer(address)) as writer:
        for partition in range(partition_count):
            writer.send(topic, [Message(None, b"%d" % number) for number in range(each)], partition=partition)
