"""`ottla store` shows the tree of a store, also one that is open, and says in words what is wrong."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.store import store
from ottla.coordination.embedded_file import STORE_FILE_NAME
from tests.coordination.conformance import Client
from tests.coordination.test_embedded import EmbeddedEngine


def run(data_dir: Path, *arguments: str) -> Result:
    return CliRunner().invoke(store, [*arguments, "--data-dir", str(data_dir)])


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """A store with a few nodes, held open as by a running broker."""
    client = Client(EmbeddedEngine(str(tmp_path / STORE_FILE_NAME)))
    client.create("/brokers")
    client.create("/brokers/ids")
    client.create("/brokers/ids/1", '{"host":"hé"}'.encode(), ephemeral=True)
    client.create("/cluster", b"\xff\x00")
    yield client
    client.store.close()


@pytest.mark.usefixtures("client")
def test_ls_lists_children_while_the_store_is_open(tmp_path: Path) -> None:
    assert run(tmp_path, "ls").stdout == "brokers\ncluster\n"
    assert run(tmp_path, "ls", "/brokers/").stdout == "ids\n"
    assert run(tmp_path, "ls", "/cluster").stdout == ""
    assert json.loads(run(tmp_path, "ls", "/", "--json").stdout) == ["brokers", "cluster"]


@pytest.mark.usefixtures("client")
def test_get_prints_the_value_as_it_is(tmp_path: Path) -> None:
    assert run(tmp_path, "get", "/brokers/ids/1").stdout == '{"host":"hé"}\n'
    assert run(tmp_path, "get", "/cluster").stdout_bytes == b"\xff\x00\n"


def test_get_as_json_has_the_stat(tmp_path: Path, client: Client) -> None:
    shown = json.loads(run(tmp_path, "get", "/brokers/ids/1", "--json").stdout)
    assert shown["value"] == '{"host":"hé"}'
    assert shown["ephemeral_owner"] == client.store.session_id
    assert (shown["path"], shown["version"], shown["children"]) == ("/brokers/ids/1", 0, [])


@pytest.mark.usefixtures("client")
def test_tree_shows_everything_below_a_node(tmp_path: Path) -> None:
    assert run(tmp_path, "tree", "/brokers").stdout == '/brokers\n  ids\n    1 (ephemeral) = {"host":"hé"}\n'
    lines = run(tmp_path, "tree", "--json").stdout.splitlines()
    assert [json.loads(line)["path"] for line in lines] == [
        "/",
        "/brokers",
        "/brokers/ids",
        "/brokers/ids/1",
        "/cluster",
    ]


def test_closed_store_can_be_read(tmp_path: Path, client: Client) -> None:
    client.store.close()
    assert run(tmp_path, "ls", "/brokers/ids").stdout == ""
    assert run(tmp_path, "ls", "/brokers").stdout == "ids\n"


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("command", ["ls", "get", "tree"])
def test_missing_node_is_named_with_exit_code_1(tmp_path: Path, command: str) -> None:
    result = run(tmp_path, command, "/nowhere")
    assert result.exit_code == 1
    assert "there is no node /nowhere" in result.stderr
    assert result.stdout == ""


def test_missing_store_has_exit_code_1_and_is_not_made(tmp_path: Path) -> None:
    result = run(tmp_path, "ls")
    assert result.exit_code == 1
    assert f"there is no coordination store at {tmp_path}" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_broken_file_has_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / STORE_FILE_NAME).write_bytes(b"no database" * 1_000)
    result = run(tmp_path, "ls")
    assert result.exit_code == 1
    assert "cannot be read: file is not a database" in result.stderr


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("arguments", [("ls", "brokers"), ("get",), ("get", "/a/../b"), ("tree", "/a//b")])
def test_wrong_usage_has_exit_code_2(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert run(tmp_path, *arguments).exit_code == 2
