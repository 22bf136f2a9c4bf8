"""Kafka's command-line tools by the names of their scripts; each call is a JVM of its own."""

import csv
import io
import json
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from interop.broker_process import BrokerProcess
from interop.kafka_peer import run_tool, tool_command

TOOLS = "org.apache.kafka.tools"


def connect(broker: BrokerProcess) -> list[str]:
    return ["--bootstrap-server", broker.bootstrap]


def topics(broker: BrokerProcess, *arguments: str, check: bool = True) -> str:
    finished = run_tool(f"{TOOLS}.TopicCommand", [*connect(broker), *arguments], check=check)
    return finished.stdout + finished.stderr


def configs(broker: BrokerProcess, *arguments: str, check: bool = True) -> str:
    finished = run_tool("kafka.admin.ConfigCommand", [*connect(broker), *arguments], check=check)
    return finished.stdout + finished.stderr


def consumer_groups(broker: BrokerProcess, *arguments: str) -> str:
    """It ends with 0 whatever happened, so what it printed on either side is given back."""
    finished = run_tool(f"{TOOLS}.consumer.group.ConsumerGroupCommand", [*connect(broker), *arguments])
    return finished.stdout + finished.stderr


def group_rows(broker: BrokerProcess, group: str, *arguments: str) -> list[list[str]]:
    """The rows of `--describe`, heads left out, in the order of topic and partition."""
    printed = consumer_groups(broker, "--describe", "--group", group, *arguments)
    return sorted(line.split() for line in printed.splitlines() if line.startswith(f"{group} "))


def reset_offsets(broker: BrokerProcess, group: str, *arguments: str, execute: bool) -> dict[tuple[str, int], int]:
    """What `--reset-offsets` would set, or has set; it prints the same either way."""
    wish = ["--reset-offsets", "--group", group, *arguments, "--execute" if execute else "--dry-run", "--export"]
    printed = consumer_groups(broker, *wish)
    rows = [row for row in csv.reader(io.StringIO(printed)) if len(row) >= 3]
    assert rows, printed
    return {(topic, int(partition)): int(offset) for topic, partition, offset in (row[-3:] for row in rows)}


def console_produce(broker: BrokerProcess, topic: str, lines: list[str], *arguments: str) -> None:
    stdin = "".join(f"{line}\n" for line in lines)
    run_tool(f"{TOOLS}.ConsoleProducer", [*connect(broker), "--topic", topic, *arguments], stdin=stdin)


def console_consume(broker: BrokerProcess, topic: str, count: int, *arguments: str) -> list[str]:
    limits = ["--max-messages", str(count), "--timeout-ms", "30000"]
    consume = [*connect(broker), "--topic", topic, *limits, *arguments]
    return run_tool(f"{TOOLS}.consumer.ConsoleConsumer", consume).stdout.splitlines()


def console_consume_partition(
    broker: BrokerProcess, topic: str, count: int, *arguments: str, offset: str = "earliest"
) -> list[str]:
    """By assignment of partition 0: no group takes part."""
    return console_consume(broker, topic, count, "--partition", "0", "--offset", offset, *arguments)


def offsets_of(broker: BrokerProcess, topic: str, *, time: str) -> list[str]:
    return run_tool(f"{TOOLS}.GetOffsetShell", [*connect(broker), "--topic", topic, "--time", time]).stdout.split()


def eventually(condition: Callable[[], bool], *, what: Callable[[], object], within_seconds: float = 60.0) -> None:
    deadline = time.monotonic() + within_seconds
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)


class VerifiableConsumer:
    """`kafka-verifiable-consumer`: a member of a group, in a process of its own, that tells what happens to it.

    Owned by the `with` block; its end is SIGTERM, on which the member leaves the group.
    """

    def __init__(self, broker: BrokerProcess, topic: str, group: str, *arguments: str) -> None:
        wish = [*connect(broker), "--topic", topic, "--group-id", group, *arguments]
        self._command = tool_command(f"{TOOLS}.VerifiableConsumer", wish)
        self.events: list[dict[str, Any]] = []
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "VerifiableConsumer":
        self.process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True
        )
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end(kill=False)

    def end(self, *, kill: bool) -> None:
        process = self.process
        assert process is not None
        if process.poll() is None:
            (process.kill if kill else process.terminate)()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _read(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                self.events.append(json.loads(line))

    def named(self, name: str) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event["name"] == name]

    @property
    def owned(self) -> set[int]:
        """The partitions that it has now, by what it was given and what was taken; for a single topic."""
        partitions: set[int] = set()
        for event in list(self.events):
            if event["name"] in ("partitions_assigned", "partitions_revoked", "partitions_lost"):
                changed = {each["partition"] for each in event["partitions"]}
                partitions = partitions | changed if event["name"] == "partitions_assigned" else partitions - changed
        return partitions

    @property
    def consumed(self) -> int:
        return sum(event["count"] for event in self.named("records_consumed"))

    @property
    def committed(self) -> dict[int, int]:
        """The last offset that it committed of each partition."""
        seen: dict[int, int] = {}
        for event in self.named("offsets_committed"):
            if event["success"]:
                seen.update({each["partition"]: each["offset"] for each in event["offsets"]})
        return seen
