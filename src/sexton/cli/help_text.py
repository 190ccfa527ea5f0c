"""What does every help text look like, whichever command it is of?

Usage, what the command does          from its function and docstring
Arguments, Options                    a value is named in capitals: N, FILE, TIME
Exit codes                            the same for all, unless a module says it in its own words
Examples                              line by line, as they were written
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand

from sexton.cli.registry import Examples

EXIT_CODES = (
    "0 all is well, 1 a finding or a failure, 2 wrong usage, 3 incomplete: what could not be "
    "checked is named."
)

# What typer would call a value: the name of a Python type.
VALUE_NAMES = {
    "<int>": "N",
    "<int range>": "N",
    "<float>": "NUMBER",
    "<float range>": "NUMBER",
    "<str>": "TEXT",
    "<path>": "PATH",
}


class Command(TyperCommand):
    """A command whose help ends with exit codes and examples."""

    exit_codes: str = EXIT_CODES

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments and options, and after them how it ends."""
        super().format_options(ctx, formatter)
        with formatter.section("Exit codes"):
            formatter.write_text(self.exit_codes)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Examples keep their lines."""
        del ctx
        formatter.write(self.epilog or "")


def make_command(name: str, module: Any) -> Command:
    """The function of a command's module, as typer's command."""
    application = typer.Typer(add_completion=False, rich_markup_mode=None)
    epilog = examples_text(module.EXAMPLES)
    application.command(name=name, cls=Command, epilog=epilog)(module.command)
    made: Any = typer.main.get_command(application)
    assert isinstance(made, Command)
    made.exit_codes = getattr(module, "EXIT_CODES", EXIT_CODES)
    for param in made.params:
        name_value(param)
    return made


def name_value(param: Any) -> None:
    """Gives a value its name, where the option or argument has none."""
    if isinstance(param, TyperArgument):
        param.metavar = param.metavar or str(param.name).upper()
        vars(param)["display_type_rich"] = lambda **_: ""  # the name says it already
    elif param.metavar is None and not getattr(param, "is_flag", False):
        param.metavar = VALUE_NAMES.get(param.display_type_rich(ctx=None))


def examples_text(examples: Examples) -> str:
    """The end of a help text."""
    lines = ["", "Examples:"]
    for what, command in examples:
        lines += [f"  {what}:", f"    $ {command}"]
    return "\n".join(lines) + "\n"
