"""A group of commands in other modules: it imports a module only when its command is called.

It prints the list of commands without importing any of them.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """`lazy` is name -> (the click command as module:attribute, its help line)."""

    def __init__(self, *arguments: Any, lazy: Mapping[str, tuple[str, str]], **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self._lazy, *self.commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        module_name, _, attribute = self._lazy[cmd_name][0].partition(":")
        command = getattr(import_module(module_name), attribute)
        assert isinstance(command, click.Command), f"{module_name}.{attribute} is no click command"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # The parent class would import every command for its help line.
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._line(name)) for name in self.list_commands(ctx)])

    def _line(self, name: str) -> str:
        return self._lazy[name][1] if name in self._lazy else self.commands[name].get_short_help_str(limit=90)
