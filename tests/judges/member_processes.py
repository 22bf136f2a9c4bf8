"""Members of groups as processes, what they reported, and the checks over it that hold after any run."""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tests.processes import BrokerProcess, eventually

CLIENTS = ["confluent", "aiokafka", "kafka-python"]
_SCRIPT = Path(__file__).with_name("member_script.py")


class Ownership(NamedTuple):
    """A partition in the hands of a member, from the call that gave it to the one that took it, or to its death."""

    partition: int
    start_s: float
    end_s: float
    member: str


class MemberProcess:
    """One run of the script; its lines are read by a thread."""

    def __init__(
        self,
        broker: BrokerProcess,
        client: str,
        group_id: str,
        topic: str,
        *,
        session_timeout_ms: int,
        assignor: str = "range",
        instance_id: str | None = None,
        commits: bool = True,
        name: str = "",
    ) -> None:
        self.name = name
        self.died_at_s: float | None = None
        options = {
            "session_timeout_ms": session_timeout_ms,
            "assignor": assignor,
            "instance_id": instance_id,
            "commits": commits,
        }
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end
        self.process = subprocess.Popen(
            [sys.executable, str(_SCRIPT), client, broker.address, group_id, topic, json.dumps(options)],
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):
                self._events.append(json.loads(line))

    # What it has reported so far

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        return [event for event in list(self._events) if event["event"] in kinds]

    @property
    def has_started(self) -> bool:
        return bool(self.events("started"))

    @property
    def partitions(self) -> set[int]:
        owned: set[int] = set()
        for event in self.events("assigned", "revoked"):
            if event["event"] == "revoked":
                owned -= set(event["partitions"])
            else:
                owned = owned | set(event["partitions"]) if event["is_cooperative"] else set(event["partitions"])
        return owned

    @property
    def generations(self) -> list[int]:
        """Of clients that tell."""
        return [event["generation"] for event in self.events("assigned") if "generation" in event]

    @property
    def records(self) -> list[tuple[int, int]]:
        """(partition, offset) of each, in the order of their delivery."""
        return [tuple(record) for event in self.events("records") for record in event["records"]]

    def acknowledged(self, *, until_s: float) -> list[tuple[int, int]]:
        """(partition, offset) of each commit that had been answered without an error at a time."""
        events = [event for event in self.events("committed") if event["at_s"] <= until_s]
        return [tuple(entry) for event in events for entry in event["offsets"]]

    def ownerships(self) -> Iterator[Ownership]:
        starts: dict[int, float] = {}
        for event in self.events("assigned", "revoked"):
            at_s = event["at_s"]
            gone = event["partitions"]
            if event["event"] == "assigned":
                gone = [] if event["is_cooperative"] else list(starts)
            for partition in gone:
                if partition in starts:
                    yield Ownership(partition, starts.pop(partition), at_s, self.name)
            if event["event"] == "assigned":
                starts |= dict.fromkeys(event["partitions"], at_s)
        end_s = self.died_at_s if self.died_at_s is not None else time.monotonic()
        for event in self.events("leaving"):  # not every client says of what it gives up by leaving
            end_s = event["at_s"]
        for partition, start_s in starts.items():
            yield Ownership(partition, start_s, end_s, self.name)

    # Its end

    def kill(self) -> None:
        self.process.kill()
        self._wait()

    def leave(self) -> None:
        self.process.terminate()
        self._wait()
        assert self.events("left"), f"{self.name} ended, {self.end()}"

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self._wait()
        self._errors.close()

    def end(self) -> str:
        """How it ended, for a message."""
        return f"exit code {self.process.returncode}: {self._last_errors()}"

    def _last_errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-3000:]

    def _wait(self) -> None:
        self.process.wait(30)
        if self.died_at_s is None:
            self.died_at_s = time.monotonic()
        self._reader.join(30)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Members:
    """All processes of a test, dead ones too."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        self._broker = broker
        self._topic = topic
        self.all: list[MemberProcess] = []

    def start(self, client: str, group_id: str, **options: Any) -> MemberProcess:
        name = f"{client} {len(self.all)}"
        member = MemberProcess(self._broker, client, group_id, self._topic, name=name, **options)
        self.all.append(member)
        return member


@contextmanager
def members_of(broker: BrokerProcess, topic: str) -> Iterator[Members]:
    members = Members(broker, topic)
    try:
        yield members
    finally:
        for member in members.all:
            member.close()


def eventually_share(members: Iterable[MemberProcess], partition_count: int) -> None:
    """Each has some, together they have all."""
    members = list(members)

    def is_settled() -> bool:
        owned = Counter(partition for member in members for partition in member.partitions)
        return owned == Counter(range(partition_count)) and all(member.partitions for member in members)

    try:
        eventually(is_settled, within_s=90)
    except AssertionError as error:
        crashed = [(member.name, member.end()) for member in members if member.process.poll() is not None]
        assert not crashed, f"a client crashed: {crashed}"
        told = [(member.name, member.events("started", "assigned", "revoked", "refused")) for member in members]
        raise AssertionError(f"not settled: {told}") from error


def eventually_read(members: Iterable[MemberProcess], expected: set[tuple[int, int]]) -> None:
    """Between them, each record at least once."""
    members = list(members)
    eventually(lambda: {record for member in members for record in member.records} >= expected, within_s=90)


def check_no_partition_was_owned_twice(members: Iterable[MemberProcess]) -> None:
    """The members are those of one group, the dead included."""
    by_partition: dict[int, list[Ownership]] = {}
    for member in members:
        for ownership in member.ownerships():
            by_partition.setdefault(ownership.partition, []).append(ownership)
    for ownerships in by_partition.values():
        ownerships.sort(key=lambda ownership: ownership.start_s)
        for before, after in pairwise(ownerships):
            assert before.end_s <= after.start_s, (before, after)


def check_generations(members: Iterable[MemberProcess]) -> None:
    """Of eager members, that tell: what each owned in a generation is its own, and generations only grow."""
    owners: dict[tuple[int, int], str] = {}
    for member in members:
        assert member.generations == sorted(member.generations)
        for event in member.events("assigned"):
            if "generation" in event:
                for partition in event["partitions"]:
                    owner = owners.setdefault((event["generation"], partition), member.name)
                    assert owner == member.name, (event, owner)


def check_commits_kept(members: Iterable[MemberProcess], committed: Sequence[int], *, until_s: float) -> None:
    """Every commit that was acknowledged until then is there, or a later one; `committed` is by partition."""
    for member in members:
        for partition, offset in member.acknowledged(until_s=until_s):
            assert committed[partition] >= offset, (partition, offset, committed)
