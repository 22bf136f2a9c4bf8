"""The `ottla` entry: lazy commands and exit codes."""

import subprocess
import sys
from collections.abc import Callable

import click
import pytest

from ottla import __version__
from ottla.cli import main as main_module
from ottla.cli.main import main


@pytest.fixture
def with_command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Makes a function reachable as `ottla probe`."""

    def install(function: Callable[[], object]) -> None:
        monkeypatch.setattr(main_module, "probe", click.command("probe")(function), raising=False)
        monkeypatch.setitem(main_module.COMMANDS, "probe", ("ottla.cli.main:probe", "For a test."))

    return install


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip().endswith(__version__)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for name, (_, help_line) in main_module.COMMANDS.items():
        assert name in out
        assert help_line in out


def test_no_arguments_show_the_help_as_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Usage: ottla" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["no-such-command"], ["--no-such-option"]])
def test_wrong_usage_exits_with_2_and_says_why(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert "no-such" in captured.err
    assert captured.out == ""


def test_a_command_that_ends_well_exits_with_0(with_command: Callable[..., None]) -> None:
    with_command(lambda: None)
    assert main(["probe"]) == 0


def test_a_command_that_fails_exits_with_1_and_its_message(
    with_command: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise click.ClickException("the disk is full")

    with_command(fail)
    assert main(["probe"]) == 1
    assert "the disk is full" in capsys.readouterr().err


def test_a_command_chooses_its_exit_code(with_command: Callable[..., None]) -> None:
    with_command(lambda: click.get_current_context().exit(1))
    assert main(["probe"]) == 1


def test_an_interrupt_exits_with_130_and_no_traceback(
    with_command: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with_command(interrupt)
    assert main(["probe"]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.process
def test_starting_imports_no_command_and_none_of_the_slow_libraries() -> None:
    code = (
        "import sys; from ottla.cli.main import main; main(['--help']);"
        "print('loaded', *sorted(sys.modules), file=sys.stderr)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(finished.stderr.split())
    assert "click" in loaded
    assert not {"asyncio", "uvloop", "rich", "kio", "numpy", "pyarrow", "ottla.cli.serve"} & loaded
