"""A broker as a child process on 127.0.0.1, whoever wrote it: start, first answer, cost, stop by its pid."""

import os
import random
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from interop.process_usage import cpu_seconds, resident_bytes
from ottla.pipeline.demo.run_signals import signals_held

# ApiVersions v0: api key 18, version 0, correlation id 1, no client id. Every broker since 0.10 answers it.
_API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)


class BrokerProcessError(RuntimeError):
    """The broker ended, or did not answer in time; the message has the end of its output."""


def free_port() -> int:
    """A port nobody listens on now; the caller binds it at once.

    It lies below the range from which the kernel takes ports for outgoing connections: a client that knocks before the
    broker listens could otherwise be given the very port that it knocks on, and keep the broker from binding it.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def answers_api_versions(port: int, *, timeout_seconds: float = 1.0) -> bool:
    """Whether a real ApiVersions request gets its real answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_seconds) as connection:
            connection.sendall(_API_VERSIONS_REQUEST)
            answer = b""
            while len(answer) < 10:
                part = connection.recv(4096)
                if not part:
                    return False
                answer += part
    except OSError:
        return False
    _, correlation_id, error_code = struct.unpack(">iih", answer[:10])
    return bool(correlation_id == 1 and error_code == 0)


class BrokerProcess:
    """One broker process; owned by whoever started it, ended by `stop` or by leaving the `with` block.

    Subclasses say how it is started. The data folder belongs to the caller and is not removed.
    """

    name = "broker"
    start_timeout_seconds = 30.0

    def __init__(self, data_dir: Path, *, overrides: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir
        self.overrides = dict(overrides or {})
        self.port = free_port()
        self.seconds_to_first_answer = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._output_path = data_dir.parent / f"{data_dir.name}.output"

    def prepare(self) -> None:
        """What must be there before the process starts; not counted as its start."""
        self.data_dir.mkdir(parents=True, exist_ok=True)

    def command(self) -> Sequence[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise BrokerProcessError(f"{self.name} is not running")
        return self._process.pid

    def answers(self) -> bool:
        return answers_api_versions(self.port)

    def start(self) -> None:
        """Start it and wait for its first answer. When that does not come, or we are interrupted, it is killed."""
        self.prepare()
        command, environment = self.command(), self.environment()
        with self._output_path.open("ab") as output, signals_held():
            started = time.perf_counter()
            self._process = process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
        try:
            self._wait_for_answer(process, deadline=started + self.start_timeout_seconds)
        except BaseException:
            self.kill()
            raise
        self.seconds_to_first_answer = time.perf_counter() - started

    def _wait_for_answer(self, process: "subprocess.Popen[bytes]", *, deadline: float) -> None:
        while not self.answers():
            if process.poll() is not None:
                raise BrokerProcessError(f"{self.name} ended with {process.returncode} at start:\n{self.output_tail()}")
            if time.perf_counter() > deadline:
                raise BrokerProcessError(
                    f"{self.name} gave no answer in {self.start_timeout_seconds} s:\n{self.output_tail()}"
                )
            time.sleep(0.002)

    def stop(self, *, timeout_seconds: float = 30.0) -> None:
        """SIGTERM, then SIGKILL when it does not end or we are interrupted; nothing when it has ended already."""
        process = self._process
        try:
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL to it and to those that it has started, which are in its group: no clean shutdown."""
        process = self._process
        if process is not None:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # nobody is left in it
            process.wait()
            self._process = None

    def resident_bytes(self) -> int:
        return resident_bytes(self.pid)

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pid)

    def output_tail(self, *, characters: int = 2000) -> str:
        return self._output_path.read_text(errors="replace")[-characters:] if self._output_path.exists() else ""

    def __enter__(self) -> "BrokerProcess":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
