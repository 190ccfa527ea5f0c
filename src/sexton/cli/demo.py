"""`sexton demo`: the best of sexton, on real data, without any set-up."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from sexton.base.findings import Finding
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column

EXAMPLES = (
    ("See it", "sexton demo"),
    ("Keep what happened for a program", "sexton demo --format json"),
)

STEPS = (Column("step"), Column("command"), Column("exit_code"))


def command(format: FormatOption = Format.table) -> None:
    """Show what sexton finds in a log that Apache Kafka wrote, before and after it is damaged.

    Everything happens in a temporary directory, which is removed at the end.
    """
    with tempfile.TemporaryDirectory(prefix="sexton-demo-") as folder, _inside(folder):
        if format is Format.table:
            _tell(_Narrator(), Path())
            return
        with Output("demo", format) as out:
            quiet = _Recorder()
            _tell(quiet, Path())
            out.rows("steps", STEPS, quiet.steps)


def _tell(teller: _Narrator | _Recorder, folder: Path) -> None:
    from sexton.lab.damage import copy_sample, flip_bit, tear

    copy_sample(folder, "payments-0")
    teller.says(
        "This directory is a partition as Apache Kafka 4.3.1 left it on disk. Two transactional\n"
        "producers took turns; one of them aborted each time. Kafka's own tools show the records,\n"
        "but not which of them a read_committed consumer will ever see:"
    )
    teller.runs("dump", "log", "dump", "payments-0")
    teller.says(
        "Is every byte what a broker would have written? Checksums, offsets, sequences, epochs,\n"
        "indexes, the producer snapshot; and every offset without a record has an explanation:"
    )
    teller.runs("verify", "log", "verify", "payments-0")

    copy_sample(folder, "torn-0")
    tear(folder / "torn-0", 40)
    flip_bit(copy_sample(folder, "flipped-0"), 140)
    teller.says(
        "Now two copies of it have an accident. The last 40 bytes of one never reached the disk;\n"
        "in the other a single bit turned over:"
    )
    teller.runs("verify damaged copies", "log", "verify", "torn-0", "flipped-0")
    teller.says(
        "A broker that starts on the torn copy must cut it at the last whole batch, and rebuild\n"
        "indexes, epochs and producer state from the batches. That is what sexton's log does:"
    )
    teller.found("recover", _recover(folder, "torn-0"))
    teller.runs("verify recovered copy", "log", "verify", "torn-0")
    teller.says(
        "Next: point it at a directory of your own, `sexton log verify /var/lib/kafka/data`,\n"
        "or see `sexton --help`."
    )


def _recover(folder: Path, name: str) -> list[Finding]:
    from sexton.log.config import LogConfig
    from sexton.log.real_disk import RealDisk
    from sexton.log.recovery import open_log

    now_ms = int(time.time() * 1000)
    opened = open_log(RealDisk(folder), name, LogConfig(), now_ms=now_ms)
    opened.log.close(now_ms)
    return opened.findings


class _Narrator:
    """Tells the story to a person: why, the command one would type, and what it prints."""

    def says(self, text: str) -> None:
        typer.echo(f"\n{text}\n")

    def runs(self, _step: str, *arguments: str) -> None:
        from sexton.cli.main import main

        typer.echo(f"$ sexton {' '.join(arguments)}")
        main(arguments)
        sys.stdout.flush()

    def found(self, _step: str, findings: list[Finding]) -> None:
        for finding in findings:
            typer.echo(f"{finding.code}: {finding.where}: {finding.message}")
            facts = ", ".join(f"{name} {value}" for name, value in finding.evidence.items())
            typer.echo(f"  put right: {facts}\n".replace("_", " "))


class _Recorder:
    """Keeps what happened, for a program."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str | None, int | None]] = []

    def says(self, text: str) -> None:
        pass

    def runs(self, step: str, *arguments: str) -> None:
        from sexton.cli.main import main

        answer = io.StringIO()
        with contextlib.redirect_stdout(answer):
            code = main([*arguments, "--format", "json"])
        said: dict[str, Any] = json.loads(answer.getvalue())
        assert said["exit_code"] == code
        self.steps.append((step, f"sexton {' '.join(arguments)}", code))

    def found(self, step: str, findings: list[Finding]) -> None:
        self.steps.append((f"{step}: {findings[0].code}", None, None))


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    """Relative paths make shorter lines."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
