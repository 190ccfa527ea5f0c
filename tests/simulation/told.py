"""One run as text: its whole story, and everything that was counted in it.

    python tests/simulation/told.py SEED HOURS

prints it, so that another process with other hashes can be compared.
"""

from __future__ import annotations

import sys
from dataclasses import asdict

from sexton.sim.faults import FAULTS
from sexton.sim.narrator import narrated
from sexton.sim.replay import Replay, replay_options
from sexton.sim.shrinking import WorkOnly

BUSY = ("fault_pause_ms=300000", "fault_lasts_ms=600000", "transactional_writers=2")


def told(seed: int, hours: int) -> str:
    """Every kind of fault, one every five minutes, without the quiet days afterwards."""
    options = replay_options(seed, hours, "coordinated", ",".join(FAULTS), BUSY)
    lines: list[str] = []
    run = narrated(Replay(options), lambda at_ms, what: lines.append(f"{at_ms} {what}"), WorkOnly)
    lines.append(str(asdict(run.go())))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(told(int(sys.argv[1]), int(sys.argv[2])))
