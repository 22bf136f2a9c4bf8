"""A process that writes to the embedded store is killed with -9: what was acknowledged is there, multis are whole."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.coordination.embedded_file import STORE_FILE_NAME, StoreReader
from ottla.coordination.store import Code
from tests.coordination.conformance import Client
from tests.coordination.test_embedded import EmbeddedEngine

# Keeps many operations under way, and prints each one that was acknowledged.
WRITER = """
import os, queue, sys
from ottla.coordination.embedded import EmbeddedStore
from ottla.coordination.store import Create

posted = queue.SimpleQueue()
store = EmbeddedStore(sys.argv[1], post=posted.put)
under_way = 0
number = 0


def acknowledged(result):
    global under_way
    under_way -= 1
    assert result.is_ok, result
    paths = [result.path] if result.path else [part.path for part in result.results]
    os.write(1, "".join(path + "\\n" for path in paths).encode())


store.create("/nodes", b"", lambda result: None)
store.create("/pairs", b"", lambda result: None)
store.create("/ephemeral", b"", lambda result: None, ephemeral=True)
while True:
    while under_way < 50:
        under_way += 2
        number += 1
        store.create(f"/nodes/{number}", b"value %d" % number, acknowledged)
        pair = [Create(f"/pairs/left-{number}", b""), Create(f"/pairs/right-{number}", b"")]
        store.multi(pair, acknowledged)
    posted.get()()
"""


@pytest.mark.parametrize("acknowledgements", [1, 100, 1_500])
def test_killed_writer_keeps_all_acknowledged_writes(tmp_path: Path, acknowledgements: int) -> None:
    path = str(tmp_path / STORE_FILE_NAME)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(acknowledgements)]
        os.kill(writer.pid, signal.SIGKILL)
        lines += writer.stdout.readlines()
    finally:
        writer.kill()
        writer.wait()
        assert writer.stdout is not None
        writer.stdout.close()
    assert writer.returncode == -signal.SIGKILL
    acked = {line.decode().strip() for line in lines if line.endswith(b"\n")}
    assert len(acked) >= acknowledgements

    with StoreReader(path) as reader:  # before anybody has repaired anything
        assert all(reader.read(path).is_ok for path in acked)

    client = Client(EmbeddedEngine(path))
    nodes = client.children("/nodes")
    pairs = client.children("/pairs")
    present = {f"/nodes/{name}" for name in nodes.children} | {f"/pairs/{name}" for name in pairs.children}
    assert acked <= present
    for name in nodes.children:
        assert client.get(f"/nodes/{name}").value == f"value {name}".encode()
    lefts = {name.removeprefix("left-") for name in pairs.children if name.startswith("left-")}
    rights = {name.removeprefix("right-") for name in pairs.children if name.startswith("right-")}
    assert lefts == rights
    assert nodes.stat is not None
    assert nodes.stat.num_children == len(nodes.children)
    assert client.exists("/ephemeral").code == Code.NO_NODE
    client.store.close()
