"""kill -9 of a driver whose streams are being validated: nothing is found twice, nothing is lost.

Each stream stops at its step of the second batch. When all are there, the driver is killed, and
another one goes on to the end.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path

import sexton.spark
from sexton.survey.validating_state import COMMITTED
from sexton.testing.waiting import until
from tests.spark import driver_process, validate_driver
from tests.spark.driver_process import said
from tests.spark.validate_driver import STREAMS, line_of

FILES, ROWS, PARTITIONS = 4, 10, 2
EPOCH_S = 1_700_000_000  # Spark takes files by their time
DEADLINE_S = 600.0

FALLS = {f"state-regression {p} {f * ROWS + 9}" for p in range(PARTITIONS) for f in range(FILES)}
AGAIN = {
    f"inconsistent-duplicate {p} {f * ROWS}" for p in range(PARTITIONS) for f in range(1, FILES)
}


def write_files(directory: Path) -> None:
    """In each file the last row of a partition falls; its first has an id of the file before, which
    is seen only by who remembers that one.
    """
    directory.mkdir()
    for file in range(FILES):
        lines = []
        for partition in range(PARTITIONS):
            for row in range(ROWS):
                offset = file * ROWS + row
                same = row == 0 and file > 0
                told = {
                    "n": 0 if row == ROWS - 1 else offset + 1,
                    "id": f"{partition}-{offset - ROWS + 1 if same else offset}",
                }
                lines.append(
                    {
                        "topic": "t", "partition": partition, "offset": offset,
                        "key": f"k{row % 5}", "value": json.dumps(told),
                    }
                )  # fmt: skip
        hidden, path = directory / f".{file}", directory / f"{file}.json"
        hidden.write_text("\n".join(map(json.dumps, lines)))
        os.utime(hidden, (EPOCH_S + file, EPOCH_S + file))
        hidden.rename(path)


def driver(place: Path, *stopping: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    words = (str(place / "files"), str(place), *stopping)
    return driver_process.driver(validate_driver.__name__, place, *words)


def forget(state: Path) -> None:
    """How far it was is left, and not what it knew."""
    told = json.loads((state / COMMITTED).read_text())
    for partition in told["partitions"]:
        partition["files"] = []
    (state / COMMITTED).write_text(json.dumps(told))


def test_a_driver_that_is_killed_at_any_step_goes_on_exactly(tmp_path: Path) -> None:
    write_files(tmp_path / "files")
    held = [tmp_path / f"held-{name}" for name in STREAMS]
    with driver(tmp_path, *STREAMS) as process:

        def all_there() -> bool:
            assert process.poll() is None, said(tmp_path)
            return all(map(Path.exists, held))

        until(all_there, "every stream at its step", DEADLINE_S, lambda: said(tmp_path))
    forget(tmp_path / "forgotten" / "state")
    with driver(tmp_path) as process:
        assert process.wait(DEADLINE_S) == 0, said(tmp_path)
    told = {
        name: Counter((tmp_path / f"log-{name}").read_text().split("\n")[:-1]) for name in STREAMS
    }
    for name in STREAMS:
        proof = sexton.spark.stream_proof(tmp_path / name)
        found = sorted(map(line_of, proof.findings))
        assert (
            sum(each.records for each in proof.validation.partitions) == FILES * ROWS * PARTITIONS
        )
        if name == "forgotten":  # the control: ids of the second file are not known to the third
            assert (FALLS | AGAIN) - set(found) == {
                f"inconsistent-duplicate {p} 20" for p in (0, 1)
            }
        else:
            assert found == sorted(FALLS | AGAIN)
            assert set(told[name]) == FALLS | AGAIN
    assert set(told["before"].values()) == set(told["kept"].values()) == {1}
    # Who was killed while it told says it again: better twice than never.
    second = {line for line in FALLS | AGAIN if 10 <= int(line.split()[2]) < 20}
    assert {line for line, times in told["told"].items() if times == 2} == second
