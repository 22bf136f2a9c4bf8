"""What pages say to type exists: commands of `ottla` with their options, targets of make; and their Python compiles."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ottla.cli.main import cli
from tests.docs.markdown import PAGES, ROOT, blocks, inline_code, name_of
from tests.docs.shell_commands import simple_commands

_SHELL = ("sh", "console")


class Stale(Exception):
    """A page names what is not there."""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_ottla_command_of_a_block_has_its_options(page: Path) -> None:
    for words in _block_commands(page):
        if Path(words[0]).name == "ottla":
            _check(words[1:], is_whole=True)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_ottla_command_of_the_prose_has_its_options(page: Path) -> None:
    for words in _inline_commands(page):
        if words[0] == "ottla":
            _check(words[1:], is_whole=False)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_make_target_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        word
        for words in (*_block_commands(page), *_inline_commands(page))
        if words[0] == "make"
        for word in words[1:]
        if re.fullmatch(r"[a-z-]+", word)
    }
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_python_block_compiles(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language == "python":
            ast.parse(block.text, filename=f"{page}:{block.line}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_shell_is_marked_as_shell(page: Path) -> None:
    unmarked = [
        block.line
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.language in ("", "text", "bash", "shell")
        and re.match(r"(\$ |ottla |make |pip |python3? |\S+/bin/)", block.text)
    ]
    assert unmarked == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_shell_block_has_comments(page: Path) -> None:
    # zsh takes them for arguments when they are typed or pasted: `make run # live` asks for a target `#`.
    shell = [block for block in blocks(page.read_text(encoding="utf-8")) if block.language == "sh"]
    assert [block.line for block in shell if re.search(r"(^|\s)# ", block.text)] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_installs_a_release_that_does_not_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"pip install[^`\n]*['\" ]ottla(?:\[[^\]]*\])?(?=['\"`\s])", text) == []


@pytest.mark.parametrize(
    "line",
    [
        "topics create orders --partitionz 3",
        "topics make orders",
        "consume -t orders --isolation-level none",
        "groups describe",
        "topics list orders",
        "perf produce -t load -n many",
    ],
)
def test_a_stale_command_is_noticed(line: str) -> None:
    with pytest.raises((click.ClickException, Stale)):
        _check(shlex.split(line), is_whole=True)


def test_simple_commands_are_found_in_a_block() -> None:
    block = (
        "$ seq 3 | ottla produce -t 'a b' -K '|' 2>log &\n"
        "X=1 ottla consume -t a#b -o s@$(($(date +%s) - 60)) -e  # it's a comment\n"
        "while kill -0 $!; do sleep 1; done\n"
    )
    assert list(simple_commands(block)) == [
        ["date", "+%s"],
        ["seq", "3"],
        ["ottla", "produce", "-t", "a b", "-K", "|"],
        ["ottla", "consume", "-t", "a#b", "-o", "s@SUBSTITUTED", "-e"],
        ["kill", "-0", "$!"],
        ["sleep", "1"],
        ["done"],
    ]


def _block_commands(page: Path) -> Iterator[list[str]]:
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language in _SHELL:
            text = block.text
            if block.language == "console":
                text = "".join(line + "\n" for line in text.splitlines() if line.startswith("$ "))
            yield from simple_commands(text)


def _inline_commands(page: Path) -> Iterator[list[str]]:
    for code in inline_code(page.read_text(encoding="utf-8")):
        if re.match(r"(ottla|make) ", code):
            yield from simple_commands(code.replace("\\|", "|"))


def _check(words: list[str], *, is_whole: bool) -> None:
    """Walk to the subcommand, then let click's parser read the rest; prose may leave out what is required."""
    command: click.Command = cli
    context = click.Context(cli, info_name="ottla")
    while isinstance(command, click.Group):
        if not words or words[0].startswith("-"):
            break
        found = command.get_command(context, words[0])
        if found is None:
            raise Stale(f"{context.command_path} has no command {words[0]}")
        command, context, words = found, click.Context(found, info_name=words[0], parent=context), words[1:]
    if words in ([], ["--help"]) and not is_whole:
        return
    words = [word for word in words if word not in ("…", "...")]
    try:
        values, rest, _ = command.make_parser(context).parse_args(list(words))
    except click.BadOptionUsage as error:
        if isinstance(error, click.NoSuchOption) or is_whole:
            raise
        return  # prose may name an option without its value
    if rest:
        raise Stale(f"{context.command_path} takes no {rest}")
    for parameter in command.params:
        value = values.get(parameter.name)
        if value is not None and not isinstance(parameter.type, click.Path):
            value = parameter.type_cast_value(context, value)
        if is_whole and parameter.required and (value is None or value == ()):
            raise Stale(f"{context.command_path} needs {parameter.human_readable_name}")
