"""Apache Kafka as a peer: one KRaft node (broker and controller) on 127.0.0.1, and Kafka's own command-line tools."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from interop.broker_process import BrokerProcess, free_port
from interop.kafka_jars import jars_dir, java_command

# The heap and the collector of Kafka's own start script (kafka-server-start.sh, kafka-run-class.sh).
_SERVER_JVM_OPTIONS = [
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true",
]  # fmt: skip
_TOOL_JVM_OPTIONS = ["-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


class KafkaPeer(BrokerProcess):
    """A single Apache Kafka node with its defaults, but for what one node needs and `overrides`."""

    name = "kafka"
    start_timeout_seconds = 60.0

    def __init__(self, data_dir: Path, *, overrides: Mapping[str, str] | None = None) -> None:
        super().__init__(data_dir, overrides=overrides)
        self._controller_port = free_port()
        self._properties_path = data_dir.parent / f"{data_dir.name}.properties"

    def prepare(self) -> None:
        """Write the properties; format the storage unless an earlier start did."""
        super().prepare()
        node_id = self.overrides.get("node.id", "1")
        properties = {
            "process.roles": "broker,controller",
            "node.id": node_id,
            "controller.quorum.voters": f"{node_id}@127.0.0.1:{self._controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self.overrides,
        }
        lines = [f"{key}={value}\n" for key, value in properties.items()]
        self._properties_path.write_text("".join(lines))
        if not (self.data_dir / "meta.properties").exists():
            cluster_id = run_tool("kafka.tools.StorageTool", ["random-uuid"]).stdout.split()[-1]
            run_tool("kafka.tools.StorageTool", ["format", "-t", cluster_id, "-c", str(self._properties_path)])

    def command(self) -> Sequence[str]:
        return [
            java_command(), *_SERVER_JVM_OPTIONS, "-cp", f"{jars_dir()}/*", "kafka.Kafka", str(self._properties_path)
        ]  # fmt: skip

    def partition_dir(self, topic: str, partition: int) -> Path:
        return self.data_dir / f"{topic}-{partition}"


def tool_command(main_class: str, arguments: Sequence[str]) -> list[str]:
    return [java_command(), *_TOOL_JVM_OPTIONS, "-cp", f"{jars_dir()}/*", main_class, *arguments]


def run_tool(
    main_class: str,
    arguments: Sequence[str],
    *,
    stdin: str | None = None,
    timeout_seconds: float = 120.0,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's command-line tools by its main class; its failure raises with what it printed."""
    finished = subprocess.run(
        tool_command(main_class, arguments),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )
    if check and finished.returncode != 0:
        printed = f"{finished.stdout[-2000:]}\n{finished.stderr[-2000:]}"
        raise RuntimeError(f"{main_class} {' '.join(arguments)} ended with {finished.returncode}:\n{printed}")
    return finished
