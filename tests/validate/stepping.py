"""A stream's validation in processes that are killed: `stepping.py BOOTSTRAP TOPIC DIR KILLS...`.

Each number in KILLS is a process that ends by kill -9 just before it puts that many files in place.
(A file is put in place when it is complete: keys that have changed, or the commit itself.) Then one
more goes on to the end and prints what is known.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from sexton.audit.validation import Rules
from sexton.survey.validating_plan import Asked
from sexton.survey.validating_stream import Following, LocalSteps, until_caught_up

RULES = Rules(value="json:n", id="json:id")


def follow(bootstrap: str, topic: str, directory: Path) -> dict[str, Any]:
    asked = Asked(bootstrap, topic, RULES)
    following = Following(asked, directory, LocalSteps(2), step_offsets=50)
    until_caught_up(following, lambda _found: None)
    validation = following.validation()
    return {
        "counts": dict(validation.counts),
        "identities": sorted(each.identity for each in validation.sightings),
        "records": sum(each.records for each in validation.partitions),
        "keys": sum(each.keys for each in validation.partitions),
        "ids": sum(each.ids for each in validation.partitions),
    }


def killed(bootstrap: str, topic: str, directory: Path, after: int) -> None:
    child = os.fork()
    if child == 0:
        places = itertools.count(1)

        def watch(event: str, _arguments: Any) -> None:
            if event == "os.rename" and next(places) == after:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        follow(bootstrap, topic, directory)
        os._exit(0)  # it came to the end before
    _pid, status = os.waitpid(child, 0)
    print(f"killed before file {after}: {os.WIFSIGNALED(status)}", file=sys.stderr)


def main(bootstrap: str, topic: str, directory: str, *kills: str) -> None:
    for after in kills:
        killed(bootstrap, topic, Path(directory), int(after))
    print(json.dumps(follow(bootstrap, topic, Path(directory))))


if __name__ == "__main__":
    main(*sys.argv[1:])
