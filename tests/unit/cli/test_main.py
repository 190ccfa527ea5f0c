from __future__ import annotations

import errno
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import pytest
import typer

from sexton.base.errors import ConfigError, CorruptLog
from sexton.cli import registry
from sexton.cli.failures import MAY_NOT, NO_ROOM, failure_of
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.registry import Entry, Group
from sexton.cli.writers import Format
from sexton.protocol.codec import encode
from sexton.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.conftest import RunSexton

BUG_HINT = "this is a bug in sexton; set SEXTON_DEBUG=1 to see the traceback"


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes a function the command `log check`."""

    def install(command: Callable[..., None]) -> None:
        module = types.ModuleType("sexton.cli.log_check")
        vars(module).update(command=command, EXAMPLES=(("Check it", "sexton log check x.log"),))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(registry, "GROUPS", (Group("log", "Read segment files."),))
        monkeypatch.setattr(registry, "COMMANDS", (Entry("log check", "Check a file."),))

    return install


def check(
    path: Annotated[str, typer.Argument(help="What to check.")],
    format: FormatOption = Format.table,
) -> None:
    """Check a file.

    It is read from front to back, and nothing is changed.
    """
    with Output("log check", format) as out:
        match path:
            case "corrupt":
                raise CorruptLog("x.log at 7", "the CRC is wrong", "restore it")
            case "config":
                raise ConfigError("path", "is not allowed")
            case "bug":
                raise RuntimeError("oh")
            case "stop":
                raise KeyboardInterrupt
        out.say(f"{path} is clean")


def test_a_command_in_a_group_runs(run_sexton: RunSexton, install: Callable[..., None]) -> None:
    install(check)
    result = run_sexton("log", "check", "x.log")
    assert (result.code, result.stdout, result.stderr) == (0, "x.log is clean\n", "")


@pytest.mark.parametrize(
    ("path", "code", "stderr"),
    [
        ("corrupt", 1, "error: x.log at 7: the CRC is wrong\nhint: restore it\n"),
        ("config", 2, "error: path: is not allowed\n"),
        ("stop", 130, "interrupted\n"),
        ("bug", 1, f"error: RuntimeError: oh\nhint: {BUG_HINT}\n"),
    ],
)
def test_every_failure_has_its_code_and_words(
    run_sexton: RunSexton, install: Callable[..., None], path: str, code: int, stderr: str
) -> None:
    install(check)
    result = run_sexton("log", "check", path)
    assert (result.code, result.stdout, result.stderr) == (code, "", stderr)


def test_who_asks_gets_the_traceback(
    run_sexton: RunSexton, install: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(check)
    monkeypatch.setenv("SEXTON_DEBUG", "1")
    assert 'raise RuntimeError("oh")' in run_sexton("log", "check", "bug").stderr


@pytest.mark.parametrize(
    ("arguments", "why", "help_of"),
    [
        (["log", "chekc"], "no such command 'chekc'. Did you mean 'check'?", "sexton log"),
        (["lgo"], "no such command 'lgo'. Did you mean 'log'?", "sexton"),
        (["log", "check", "x", "--frmat", "json"], "no such option: --frmat", "sexton log check"),
        (["log", "check"], "missing argument 'PATH'", "sexton log check"),
        (["log", "check", "x", "--format", "xml"], "invalid value for", "sexton log check"),
        (["log", "check", "x", "--format"], "'--format' requires", "sexton log check"),
    ],
)
def test_wrong_usage_is_said_with_a_hint_and_code_2(
    run_sexton: RunSexton,
    install: Callable[..., None],
    arguments: list[str],
    why: str,
    help_of: str,
) -> None:
    install(check)
    result = run_sexton(*arguments)
    assert (result.code, result.stdout) == (2, "")
    assert why.lower() in result.stderr.lower()
    assert f"hint: see `{help_of} --help`" in result.stderr


@pytest.mark.parametrize("spelling", [["--format", "json"], ["--format=json"]])
def test_wrong_usage_is_json_for_those_who_asked_for_json(
    run_sexton: RunSexton, install: Callable[..., None], spelling: list[str]
) -> None:
    install(check)
    result = run_sexton("log", "check", *spelling, "--nonsense")
    assert result.code == 2
    assert result.json["command"] == "log check"
    assert result.json["error"]["kind"] == "usage"


def test_help_ends_with_examples_line_by_line(
    run_sexton: RunSexton, install: Callable[..., None]
) -> None:
    install(check)
    for arguments in (["log", "check", "--help"], ["log", "check", "-h"]):
        result = run_sexton(*arguments)
        assert result.code == 0
        assert result.stdout.endswith("\nExamples:\n  Check it:\n    $ sexton log check x.log\n")
        assert "It is read from front to back" in result.stdout
    assert "check  Check a file." in run_sexton("log", "--help").stdout
    assert "log  Read segment files." in run_sexton("--help").stdout


@pytest.mark.parametrize("arguments", [[], ["log"]])
def test_nothing_asked_shows_what_could_be(
    run_sexton: RunSexton, install: Callable[..., None], arguments: list[str]
) -> None:
    install(check)
    result = run_sexton(*arguments)
    assert (result.code, result.stdout) == (2, "")
    assert "Commands:" in result.stderr


def test_the_version_says_what_a_bug_report_needs(run_sexton: RunSexton) -> None:
    result = run_sexton("--version")
    assert result.code == 0
    assert result.stdout.startswith("sexton 0.")
    assert ", Python 3." in result.stdout


def test_help_waits_for_no_heavy_import() -> None:
    program = (
        "import sys; from sexton.cli.main import main; main(['--help']);"
        "heavy = {'numba', 'numpy', 'pyarrow', 'rich', 'asyncio'} & set(sys.modules);"
        "sys.exit(', '.join(sorted(heavy)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Commands:" in done.stdout


def test_a_reader_that_leaves_early_ends_us_quietly() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "0\n"
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) == 141


ENDLESS = """
import itertools, sys, types
from sexton.cli import main, registry
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import number

def command() -> None:
    "Count."
    with Output("count", Format.tsv) as out:
        out.rows("numbers", [number("n")], ([n] for n in itertools.count()))

module = types.ModuleType("sexton.cli.count")
module.command, module.EXAMPLES = command, ()
sys.modules[module.__name__] = module
registry.COMMANDS = (registry.Entry("count", "Count."),)
sys.argv = ["sexton", "count"]
main.run()
"""


@pytest.mark.parametrize("chosen", ["table", "json", "jsonl", "tsv"])
def test_a_full_disk_is_said_in_two_lines(chosen: str) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "sexton.cli.main", "sim", "faults", "--format", chosen],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60,
        )  # fmt: skip
    assert result.returncode == 1
    assert result.stderr == f"error: output: no space left on device\nhint: {NO_ROOM}\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_who_closes_a_stream_gets_silence_there_and_the_exit_code(closed: str) -> None:
    command = [sys.executable, "-m", "sexton.cli.main", "sim", "faults"]
    done = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *command], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b"killed-leader" in done.stdout) == (">&-" not in closed.split())


def test_a_question_to_nobody_is_answered_by_what_to_add() -> None:
    command = f"{sys.executable} -m sexton.cli.main guard panic -b localhost:1 <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --yes: is needed to stop cleaning all topics")


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "x"), MAY_NOT),
        (OSError(errno.ENOSPC, "No space left on device", "x"), NO_ROOM),
        (OSError(errno.ELOOP, "Too many levels of symbolic links", "x"), None),
    ],
)
def test_what_the_operating_system_refuses_has_a_remedy(error: OSError, hint: str | None) -> None:
    failure = failure_of(error)
    assert (failure.kind, failure.subject, failure.hint) == ("os-error", "x", hint)


def test_a_name_that_is_not_utf_8_is_no_bug_of_ours() -> None:
    request = MetadataRequest([MetadataRequestTopic(name=os.fsdecode(b"caf\xe9"))])
    with pytest.raises(ValueError, match="surrogates not allowed") as error:
        encode(request, 12)
    failure = failure_of(error.value)
    assert (failure.subject, failure.why) == (r"caf\xe9", "is not UTF-8, as Kafka's names are")
    assert (failure.kind, failure.exit_code) == ("usage", 2)


def test_a_speed_without_an_end_is_wrong_usage(run_sexton: RunSexton) -> None:
    for arguments in (
        ("audit", "x", "--max-mb-per-s", "inf"),
        ("repair", "x", "--throttle", "1e400"),
    ):
        refused = run_sexton(*arguments, "-b", "localhost:1")
        assert (refused.code, "is too large: at most 1000000" in refused.stderr) == (2, True)
