"""Apache Cassandra as a peer: one node on 127.0.0.1, from its jars alone."""

import socket
from collections.abc import Sequence
from pathlib import Path

from interop.broker_process import BrokerProcess, free_port
from interop.maven_jars import fetched_jars, java_command

CASSANDRA_VERSION = "5.0.6"
_POM = Path(__file__).with_name("cassandra_pom.xml")

# What Cassandra's own jvm17-server.options opens to it.
_EXPORTS = (
    "java.base/java.lang.ref java.base/jdk.internal.misc java.base/jdk.internal.ref java.base/sun.nio.ch "
    "java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.registry java.rmi/sun.rmi.server "
    "java.rmi/sun.rmi.transport.tcp java.sql/java.sql jdk.unsupported/sun.misc"
)
_OPENS = (
    "java.base/java.io java.base/java.lang java.base/java.lang.module java.base/java.lang.reflect java.base/java.math "
    "java.base/java.net java.base/java.nio java.base/java.util java.base/java.util.concurrent "
    "java.base/java.util.concurrent.atomic java.base/jdk.internal.loader java.base/jdk.internal.math "
    "java.base/jdk.internal.module java.base/jdk.internal.ref java.base/jdk.internal.reflect "
    "java.base/jdk.internal.util.jar java.base/jdk.internal.vm java.base/sun.nio.ch java.rmi/sun.rmi.transport.tcp "
    "jdk.compiler/com.sun.tools.javac.file jdk.management/com.sun.management.internal"
)
_JVM_OPTIONS = [
    "-Xms1G", "-Xmx1G", "-XX:+UseG1GC", "-Djdk.attach.allowAttachSelf=true", "-Dcassandra-foreground=yes",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0", "-Dcassandra.ring_delay_ms=0", "-Djava.net.preferIPv4Stack=true",
    "-Dcassandra.test.flush_local_schema_changes=false",
]  # fmt: skip
_YAML = """\
cluster_name: ottla
num_tokens: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
native_transport_port: {port}
storage_port: {storage_port}
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1:{storage_port}"
auto_snapshot: false
commitlog_sync: periodic
commitlog_sync_period: 10000ms
data_file_directories: [{folder}/data]
commitlog_directory: {folder}/commitlog
saved_caches_directory: {folder}/saved_caches
hints_directory: {folder}/hints
cdc_raw_directory: {folder}/cdc_raw
"""
# Without settings of its own it logs every detail, which costs more than many a request.
_LOGGING = """\
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %level %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""
# Native protocol version 4, OPTIONS with no body; the answer is SUPPORTED.
_OPTIONS_FRAME = bytes([0x04, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00])
_SUPPORTED = 0x06


class CassandraPeer(BrokerProcess):
    """A single node with its defaults, but for what one node needs. `port` is that of the native protocol."""

    name = "cassandra"
    start_timeout_seconds = 180.0

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self._yaml_path = data_dir.parent / f"{data_dir.name}.yaml"
        self._logging_path = data_dir.parent / f"{data_dir.name}.logback.xml"

    def prepare(self) -> None:
        super().prepare()
        text = _YAML.format(port=self.port, storage_port=free_port(), folder=self.data_dir)
        self._yaml_path.write_text(text)
        self._logging_path.write_text(_LOGGING)

    def command(self) -> Sequence[str]:
        jars = fetched_jars("cassandra", CASSANDRA_VERSION, _POM)
        return [
            java_command(),
            *_JVM_OPTIONS,
            *(f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTS.split()),
            *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS.split()),
            f"-Dlogback.configurationFile={self._logging_path}",
            f"-Dcassandra.config=file://{self._yaml_path}",
            f"-Dcassandra.storagedir={self.data_dir}",
            *("-cp", f"{jars}/*", "org.apache.cassandra.service.CassandraDaemon"),
        ]

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
                connection.sendall(_OPTIONS_FRAME)
                answer = connection.recv(9)
        except OSError:
            return False
        return len(answer) == 9 and answer[4] == _SUPPORTED
