"""Every block of these pages works as it is pasted, in order, in a fresh folder, and prints what the page shows."""

import shutil
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, Block, blocks
from tests.docs.ports import OtherPorts, own_network
from tests.docs.shown_output import matches
from tests.docs.terminal import Terminal

# These start what they need and stop it again.
WHOLE_PAGES = ["README.md", "docs/command-line.md", "docs/operating.md"]
# These need the broker that the README starts.
CLIENT_PAGES = ["docs/producer.md", "docs/consumer.md", "docs/columns.md"]

_TRANSACTION = """\
with Producer(bootstrap_servers="127.0.0.1:9092", transactional_id="copier-1") as producer:
    producer.init_transactions()
    with producer.transaction():  # begins and commits; aborts on any exception
        for record in records:
            producer.send("out", record.value, record.key)
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
"""
# What a page shows and a test can't run, by the text of the block, with the reason.
NOT_RUN = {
    "make run\nmake test\n": "minutes of Spark, and this test itself",
    "python3 -m venv v && . v/bin/activate\npip install '.[columns]'\n": "installs from the network",
    _TRANSACTION: "Ottla's broker has no transaction coordinator yet",
}
# Code that is none to run.
_SHOWN_ONLY = {"yaml", "properties", "toml"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "empty"
    made.mkdir()
    return made


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("page", [*WHOLE_PAGES, *CLIENT_PAGES])
def test_page_prints_what_it_shows(page: str, folder: Path, tmp_path: Path) -> None:
    if page == "docs/operating.md" and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    prefix = own_network()
    if prefix is None:
        _run_on_other_ports(page, folder, tmp_path)
    else:
        with Terminal(folder, tmp_path, prefix=prefix) as terminal:
            _run(terminal, _blocks_to_run(page))


@pytest.mark.process
@pytest.mark.slow
def test_readme_prints_what_it_shows_on_other_ports(folder: Path, tmp_path: Path) -> None:
    _run_on_other_ports("README.md", folder, tmp_path)


def test_every_block_that_is_not_run_is_still_in_a_page() -> None:
    there = {block.text for page in [*WHOLE_PAGES, *CLIENT_PAGES] for block in _blocks_of(page)}
    assert set(NOT_RUN) <= there


@pytest.mark.parametrize("page", [*WHOLE_PAGES, *CLIENT_PAGES])
def test_every_block_of_a_page_that_is_run_has_a_language(page: str) -> None:
    unclear = [block for block in _blocks_of(page) if block.language not in ("sh", "python", *_SHOWN_ONLY)]
    assert unclear == []


@pytest.mark.process
def test_a_page_that_shows_something_else_is_noticed(folder: Path, tmp_path: Path) -> None:
    with Terminal(folder, tmp_path) as terminal, pytest.raises(AssertionError, match="the page shows"):
        _run(terminal, blocks("```sh\necho 1\n```\n```text\n2\n```\n"))


@pytest.mark.process
def test_a_command_that_fails_is_noticed_though_the_block_goes_on(folder: Path, tmp_path: Path) -> None:
    with Terminal(folder, tmp_path) as terminal, pytest.raises(AssertionError, match="exit code 1: false"):
        _run(terminal, blocks("```sh\nfalse\ntrue\n```\n"))


@pytest.mark.process
def test_a_process_that_a_page_leaves_behind_is_noticed(folder: Path, tmp_path: Path) -> None:
    with Terminal(folder, tmp_path) as terminal, pytest.raises(AssertionError, match="has started"):
        _run(terminal, blocks("```sh\nsleep 60 &\n```\n"))


def _run_on_other_ports(page: str, folder: Path, tmp_path: Path) -> None:
    ports = OtherPorts()
    changed = [
        block._replace(text=ports.applied_to(block.text), shown=block.shown and ports.applied_to(block.shown))
        for block in _blocks_to_run(page)
    ]
    with Terminal(folder, tmp_path, OTTLA_BOOTSTRAP_SERVER=ports.default_address) as terminal:
        _run(terminal, changed)


def _blocks_of(page: str) -> list[Block]:
    return blocks((ROOT / page).read_text(encoding="utf-8"))


def _blocks_to_run(page: str) -> list[Block]:
    wanted = [block for block in _blocks_of(page) if block.language in ("sh", "python") and block.text not in NOT_RUN]
    if page in CLIENT_PAGES:
        readme = _blocks_to_run("README.md")
        return [readme[0], *wanted, readme[-1]]
    return wanted


def _run(terminal: Terminal, wanted: list[Block]) -> None:
    for block in wanted:
        run = terminal.run_python if block.language == "python" else terminal.run
        printed = run(block.text)
        report = f"line {block.line} of the page printed\n{printed}\n--- standard error\n{terminal.errors}"
        assert terminal.failed_commands == "", f"{terminal.failed_commands}\n{report}"
        assert matches(block.shown or "", printed), f"{report}\n--- the page shows\n{block.shown}"
    assert terminal.running_jobs() == "", "the page stops what it has started"
