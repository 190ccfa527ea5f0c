"""Run by a test as a driver of its own, `FILES PLACE [STREAM...]`: streams that are validated.

Those that are named stop in batch 1, each at its step, and stay there until the driver is killed:

    before   when the batch is judged, and nothing is committed
    kept     when it is committed, and nobody has been told
    told     when somebody was told, and Spark does not know that the batch is done

`forgotten` stops as `kept` does; the test takes away what it knew.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sexton.spark
from sexton.base.findings import Finding
from sexton.survey.validating_state import Checkpoint, Kept
from sexton.testing.waiting import until

STREAMS = ("before", "kept", "told", "forgotten")
HELD_S = 1200.0  # longer than anybody waits for the others
SCHEMA = "topic string, partition int, offset bigint, key string, value string"
ASKED: dict[str, Any] = {
    "value": "cast(get_json_object(value, '$.n') as bigint)",
    "id": "get_json_object(value, '$.id')",
}


def hold(place: Path, name: str) -> None:
    (place / f"held-{name}").touch()
    until(lambda: None, "a signal that kills this driver", HELD_S)


def line_of(finding: Finding) -> str:
    return f"{finding.code} {finding.evidence['partition']} {finding.evidence['new_offset']}"


def stop_before_commits(place: Path) -> None:
    """In the stream `before`; its second commit is that of batch 1."""
    commit = Checkpoint.commit

    def held(checkpoint: Checkpoint, steps: Mapping[object, Kept]) -> None:
        if checkpoint.directory.parent.name == "before" and checkpoint.kept:
            hold(place, "before")
        commit(checkpoint, steps)  # type: ignore[arg-type]

    Checkpoint.commit = held  # type: ignore[assignment, method-assign]


def main(files: str, directory: str, *stopping: str) -> None:
    place = Path(directory)
    if "before" in stopping:
        stop_before_commits(place)
    with sexton.spark.spark_session("local[2]") as spark:
        queries = []
        for name in STREAMS:

            def tell(found: list[Finding], name: str = name) -> None:
                log = place / f"log-{name}"
                second = log.exists() and name in stopping
                if second and name in ("kept", "forgotten"):
                    hold(place, name)
                with log.open("a") as lines:
                    lines.writelines(f"{line_of(each)}\n" for each in found)
                if second and name == "told":
                    hold(place, name)

            stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(files)
            queries.append(
                sexton.spark.validate(
                    stream, checkpoint=place / name, trigger={"availableNow": True},
                    on_finding=tell, **ASKED,
                )
            )  # fmt: skip
        for query in queries:
            query.awaitTermination()
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
