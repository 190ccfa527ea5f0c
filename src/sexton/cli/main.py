"""Where `sexton` starts: find the one command that was asked for, import it, run it, exit.

typer builds a whole program at once; this one is built as it is needed. `LazyGroup` knows the names
of its commands from the registry and imports a module only when its command is called or its help
is asked for. Whatever a command lets escape ends here, as one message and one exit code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import sexton
from sexton.cli import registry
from sexton.cli.failures import failure_of, hang_up, print_failure
from sexton.cli.help_text import examples_text, make_command
from sexton.cli.registry import Entry, Group
from sexton.cli.writers import Ending, Format, open_writer

USAGE = 2
COMPLETION_VARIABLE = "_SEXTON_COMPLETE"


def run() -> NoReturn:
    """What the console script calls, once all is imported."""
    # numpy brings a library for matrices, which starts a thread for each core as it is imported. We
    # have no matrices, and that thread's search for work is a tenth of a second of every command.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    prepare_streams()
    try:
        code = _call(list(arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return hang_up()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last place to say it
        return _fail(error, arguments)


def prepare_streams() -> None:
    """Names and keys may hold any bytes; printing them must not fail, whatever the locale."""
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # tests put simpler streams here
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _open_what_is_closed() -> None:
    """Whoever starts us without a stream (`>&-`) wants silence there; Python has None for it.

    The stream's number is taken too: the next file or socket would get it, and our words with it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _call(arguments: list[str]) -> int:
    application = build()
    if COMPLETION_VARIABLE in os.environ:  # a shell asks what could come next
        application.main(arguments, prog_name="sexton", complete_var=COMPLETION_VARIABLE)
    try:
        with application.make_context("sexton", arguments) as context:
            application.invoke(context)
    except typer.Exit as exit_:
        return exit_.exit_code
    return 0


def _fail(error: BaseException, arguments: Sequence[str]) -> int:
    """Say what went wrong before any command had opened its output."""
    command = named_command(arguments)
    failure = failure_of(error, command)
    chosen = requested_format(arguments)
    try:
        if chosen in (Format.json, Format.jsonl):
            writer = open_writer(command, chosen, sys.stdout)
            writer.end(Ending(exit_code=failure.exit_code, failure=failure))
        sys.stdout.flush()
    except OSError:  # a full disk takes no answer, and says so once
        hang_up()
    print_failure(failure, error, sys.stderr)
    return failure.exit_code


def named_command(arguments: Sequence[str]) -> str:
    """The command in arguments that may be too wrong to be parsed; empty if there is none."""
    paths = {entry.path for entry in registry.COMMANDS}
    candidates = (" ".join(arguments[:2]), arguments[0] if arguments else "")
    return next((path for path in candidates if path in paths), "")


def requested_format(arguments: Sequence[str]) -> Format | None:
    """The `--format` in arguments that may be too wrong to be parsed."""
    for at, argument in enumerate(arguments):
        value = argument.removeprefix("--format=")
        if argument == "--format" and at + 1 < len(arguments):
            value = arguments[at + 1]
        if value in Format.__members__ and argument.startswith("--format"):
            return Format(value)
    return None


def build() -> LazyGroup:
    """The whole program, each command still to be imported."""
    application = typer.Typer(
        name="sexton",
        cls=LazyGroup,
        help=sexton.__doc__,
        epilog=examples_text(registry.EXAMPLES),
        rich_markup_mode=None,  # typer's rich help alone takes longer to import than all the rest
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    application.callback()(_root)
    return _filled(application, "", registry.COMMANDS, registry.GROUPS)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(version_text())
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the version and what it was tested with, then exit.",
        ),
    ] = False,
) -> None:
    del version  # its callback has spoken


def version_text() -> str:
    """What a bug report should say."""
    import platform

    from sexton.base import tested

    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return (
        f"sexton {sexton.__version__}, Python {platform.python_version()}, {system}\n"
        f"tested with Python {', '.join(tested.PYTHON)}; Spark {', '.join(tested.SPARK)};"
        f" Apache Kafka {', '.join(tested.KAFKA)}"
    )


class LazyGroup(TyperGroup):
    """A command with subcommands that are imported one by one, when they are needed."""

    path: str = ""
    entries: Sequence[Entry] = ()
    groups: Sequence[Group] = ()

    def list_commands(self, ctx: Any) -> list[str]:
        """Commands first: what a newcomer tries is among them."""
        del ctx
        return [name for name, _ in self._rows()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The group or imported command called `cmd_name`, or None."""
        del ctx
        for group in self._own_groups():
            if group.name == cmd_name:
                return _build_group(group, self.entries)
        for entry in self._own_entries():
            if entry.path == self.path + cmd_name:
                return build_command(entry)
        return None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list in the help, from summaries alone."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(self._rows())

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Examples keep their lines."""
        del ctx
        formatter.write(self.epilog or "")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Nothing asked: show what could be."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), err=True)
            raise typer.Exit(USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """typer suggests from what it has loaded; here that would be nothing."""
        unloaded: dict[str, Any] = dict.fromkeys(self.list_commands(ctx))
        self.commands = unloaded
        return super().resolve_command(ctx, args)

    def _rows(self) -> list[tuple[str, str]]:
        rows = [
            (entry.path.removeprefix(self.path), entry.summary) for entry in self._own_entries()
        ]
        return rows + [(group.name, group.summary) for group in self._own_groups()]

    def _own_entries(self) -> list[Entry]:
        depth = self.path.count(" ")
        return [
            entry
            for entry in self.entries
            if entry.path.startswith(self.path) and entry.path.count(" ") == depth
        ]

    def _own_groups(self) -> Sequence[Group]:
        return self.groups if not self.path else ()


def build_command(entry: Entry) -> Any:
    """Import the module of `entry` and make its function a command."""
    module = import_module(entry.module)
    return make_command(entry.path.rpartition(" ")[2], module)


def _build_group(group: Group, entries: Sequence[Entry]) -> LazyGroup:
    application = typer.Typer(
        name=group.name, cls=LazyGroup, add_completion=False, rich_markup_mode=None
    )
    application.callback(help=group.summary)(lambda: None)
    return _filled(application, group.name + " ", entries, ())


def _filled(
    application: typer.Typer, path: str, entries: Sequence[Entry], groups: Sequence[Group]
) -> LazyGroup:
    built = typer.main.get_command(application)
    assert isinstance(built, LazyGroup)
    built.path, built.entries, built.groups = path, entries, groups
    return built


if __name__ == "__main__":
    run()
