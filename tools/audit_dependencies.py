"""Is a weakness known in anything that the lock pins?

    requirements/*.txt ──name, version──▶ the OSV database ──▶ what is known, if it answers

`make audit-deps` runs this. The database is asked over the network, in one request; where it cannot
be reached nothing was checked, which is said and is not success. Exit code: 0 nothing is known,
1 something is, 3 it could not be looked at.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOCKS = Path(__file__).parent.parent / "requirements"
SERVICE = "https://api.osv.dev/v1/querybatch"
TIMEOUT_S = 30
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)", re.MULTILINE)
KNOWN, INCOMPLETE = 1, 3


@dataclass(frozen=True, slots=True, order=True)
class Pin:
    name: str
    version: str


def pins(text: str) -> Iterator[Pin]:
    """What a file of requirements pins."""
    for name, version in PIN.findall(text):
        yield Pin(name, version)


def ask(wanted: list[Pin], service: str) -> dict[Pin, list[str]]:
    """Pin to the names of its known weaknesses; only those that have some."""
    queries = [
        {"package": {"name": pin.name, "ecosystem": "PyPI"}, "version": pin.version}
        for pin in wanted
    ]
    request = urllib.request.Request(
        service, json.dumps({"queries": queries}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
        told: Any = json.load(response)
    answers = told["results"]
    if len(answers) != len(wanted):
        raise ValueError(f"{len(answers)} answers to {len(wanted)} questions")
    found = ([each["id"] for each in answer.get("vulns", ())] for answer in answers)
    return {pin: names for pin, names in zip(wanted, found, strict=True) if names}


def main(arguments: list[str]) -> int:
    service = arguments[0] if arguments else SERVICE
    texts = (path.read_text(encoding="utf-8") for path in sorted(LOCKS.glob("*.txt")))
    wanted = sorted({pin for text in texts for pin in pins(text)})
    try:
        found = ask(wanted, service)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"NOT CHECKED: none of {len(wanted)} packages", file=sys.stderr)
        print(f"{service} could not be asked: {error}", file=sys.stderr)
        return INCOMPLETE
    for pin, names in found.items():
        print(f"{pin.name} {pin.version}: {', '.join(names)}")
    print(f"{len(wanted)} packages asked for, {len(found)} with something known")
    return KNOWN if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
