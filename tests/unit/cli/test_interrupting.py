"""Ctrl-C in the middle of long work: one word, exit code 130, and an answer that says so."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

PATIENCE_S = 60  # on a busy machine
ENDLESS = """
import itertools, sys, types
from sexton.cli import main, registry
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import number

def command() -> None:
    "Count."
    with Output("count", Format.jsonl) as out:
        for n in itertools.count():
            out.rows("numbers", [number("n")], [[n]])
            out.stdout.flush()

module = types.ModuleType("sexton.cli.count")
module.command, module.EXAMPLES = command, ()
sys.modules[module.__name__] = module
registry.COMMANDS = (registry.Entry("count", "Count."),)
sys.argv = ["sexton", "count"]
main.run()
"""


def test_work_that_is_interrupted_says_so_and_leaves_no_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline()) == {"type": "number", "n": 0}  # it is at work
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert stderr == "interrupted\n"
    last = json.loads(stdout.splitlines()[-1])
    assert (last["type"], last["exit_code"], last["error"]["kind"]) == ("end", 130, "interrupted")


# As if Ctrl-C was pressed when the first package is imported that takes a while.
AT_ONCE = """
import os, signal, sys

class Pressing:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Pressing())
from sexton.cli.{module} import run
run()
"""


@pytest.mark.parametrize(("module", "is_quiet"), [("start", True), ("main", False)])
def test_ctrl_c_while_it_starts_is_quiet_since_the_script_catches_it(
    module: str, is_quiet: bool
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE.format(module=module)], capture_output=True, text=True,
        check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert ("Traceback" not in done.stderr) is is_quiet
    if is_quiet:
        assert (done.returncode, done.stderr) == (130, "interrupted\n")
