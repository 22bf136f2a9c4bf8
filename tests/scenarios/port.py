"""The port that every scenario is written against: what a client of Kafka does, whoever wrote it.

`clients_*.py` has one adapter for each client. What a client can't do is said by its abilities and assignors, and a
scenario that needs it runs with the others. Errors are not translated: a client's own come out, and its adapter
declares which they are.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeAlias

from tests.scenarios.messages import Message

NOWHERE = "127.0.0.1:1"
POLL_MS = 50
SESSION_TIMEOUT_MS = 30_000
HEARTBEAT_INTERVAL_MS = 100


class Ability(Enum):
    """What not every client can do."""

    RECORDS_WITHOUT_KEY_AND_VALUE = "sends records with neither key nor value"
    HEADERS_WITHOUT_VALUE = "sends headers without a value"
    HOLDS_BATCHES_FOR_THE_FLUSH = "sends nothing before the flush, so that time does not cut batches"


class Failure(Enum):
    """What goes wrong on purpose."""

    SEND_TO_UNKNOWN_TOPIC = "a record for a topic that is not there"
    SEND_TOO_LARGE = "a record above the topic's limit"
    SEND_UNREACHABLE = "a record for a cluster that is not there"
    ADMINISTER_UNREACHABLE = "an operation on a cluster that is not there"
    CREATE_EXISTING_TOPIC = "a topic that is there, created again"
    DELETE_UNKNOWN_TOPIC = "a topic that is not there, deleted"
    READ_WITHOUT_OFFSET = "nothing committed, and no reset allowed"
    READ_OUT_OF_RANGE = "a position that the log does not have, and no reset allowed"


Raises: TypeAlias = tuple[type[Exception], str | None]
"""The class of a client's error, and a pattern for its words where the class says too little."""


class Received(NamedTuple):
    """A record, and where it was."""

    partition: int
    offset: int
    message: Message
    is_append_time: bool = False


class Committed(NamedTuple):
    """Where a group goes on, and the text beside it."""

    offset: int
    metadata: str = ""


class Told(NamedTuple):
    """What a member's listener was called with."""

    is_assigned: bool
    partitions: frozenset[int]


class Diary:
    """A member's listener, for clients that call it by these names."""

    def __init__(self) -> None:
        self.told: list[Told] = []

    def on_partitions_assigned(self, places: Iterable[Any]) -> None:
        self.told.append(Told(True, frozenset(place.partition for place in places)))

    def on_partitions_revoked(self, places: Iterable[Any]) -> None:
        self.told.append(Told(False, frozenset(place.partition for place in places)))


class Writing(NamedTuple):
    """How to write; `patience_ms` is how long a client may try before it gives up."""

    codec: str = "none"
    acks: str = "all"
    is_idempotent: bool = False
    request_max_bytes: int = 1_048_576
    patience_ms: int | None = None


class Reading(NamedTuple):
    """How to read partitions; `reset` is earliest, latest or none."""

    group: str | None = None
    reset: str = "earliest"
    fetch_wait_ms: int = POLL_MS


class Joining(NamedTuple):
    """How to be a member."""

    assignor: str = "range"
    instance: str | None = None
    commits_itself: bool = False


WRITING, READING, JOINING = Writing(), Reading(), Joining()


class Writer(Protocol):
    def send(self, topic: str, messages: Sequence[Message], *, partition: int | None = 0) -> list[tuple[int, int]]:
        """Send and wait; the partition and the offset of each. Partition None leaves the choice to the client."""
        ...

    def close(self) -> None: ...


class Consumes(Protocol):
    """What all that read have in common; each reads one topic."""

    def poll(self, at_most: int = 500) -> list[Received]:
        """What has come, after a short wait at most."""
        ...

    def commit(self, offsets: Mapping[int, Committed] | None = None) -> None:
        """These, or what `poll` has returned; waits for the answer."""
        ...

    def committed(self, partition: int) -> Committed | None: ...

    def close(self) -> None: ...


class Reader(Consumes, Protocol):
    """Reads the partitions that it was opened with."""

    def seek(self, partition: int, offset: int) -> None: ...

    def seek_to_beginning(self, partition: int) -> None: ...

    def seek_to_end(self, partition: int) -> None: ...

    def position(self, partition: int) -> int:
        """Known after a record was read."""
        ...

    def offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        """Of the first record at or after a time."""
        ...

    def ends(self, partition: int) -> tuple[int, int]:
        """The first offset, and the one that comes next."""
        ...

    def pause(self, partition: int) -> None: ...

    def resume(self, partition: int) -> None: ...


class Member(Consumes, Protocol):
    """Reads what its group gives it. It is polled by turns with others, so `poll` must not wait for them."""

    told: list[Told]

    @property
    def partitions(self) -> set[int]: ...


class Administrator(Protocol):
    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None: ...

    def topics(self) -> set[str]: ...

    def partition_count(self, topic: str) -> int: ...

    def add_partitions(self, topic: str, total: int) -> None: ...

    def config(self, topic: str, key: str) -> str | None: ...

    def set_config(self, topic: str, key: str, value: str) -> None: ...

    def delete_records(self, topic: str, partition: int, *, before: int) -> int:
        """The first offset that is left."""
        ...

    def delete(self, topic: str) -> None: ...

    def close(self) -> None: ...


class Client(Protocol):
    """One client library."""

    name: str
    abilities: frozenset[Ability]
    assignors: frozenset[str]
    errors: Mapping[Failure, Raises]

    def writer(self, address: str, how: Writing = WRITING) -> Writer: ...

    def reader(self, address: str, topic: str, partitions: Iterable[int] = (0,), how: Reading = READING) -> Reader: ...

    def member(self, address: str, topic: str, group: str, how: Joining = JOINING) -> Member: ...

    def administrator(self, address: str, *, patience_ms: int | None = None) -> Administrator: ...
