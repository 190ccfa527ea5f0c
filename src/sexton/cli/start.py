"""The console script: Ctrl-C before `sexton` has even started.

Most of the first tenth of a second goes into imports. To interrupt them is no reason for a
traceback, so this file imports next to nothing, and all the rest where that is caught.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from sexton.cli.interrupts import is_interrupt

INTERRUPTED = 128 + 2  # as in failures.py, which is not imported yet


def run() -> NoReturn:
    try:
        from sexton.cli.main import run as go_on
    except BaseException as error:
        if not is_interrupt(error):
            raise
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
    go_on()
