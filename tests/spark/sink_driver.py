"""Run by tests of the sink as a driver of its own: one JSON argument (`Work`).

It starts every pipeline it is told of and writes until all files are in the topics. A probe may
hold a pipeline at a step of a batch until this process is killed.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

import sexton.spark
from sexton.client.producing import REQUEST_BYTES
from sexton.spark.sink import start
from sexton.spark.sink_protocol import Probe, unwatched
from sexton.spark.sink_settings import sink_settings
from sexton.testing.waiting import until
from tests.spark.sink_chaos import Chaos
from tests.spark.sink_faults import EACH_A_BATCH, SOME_ARE_SENT
from tests.spark.sink_rules import EndOfEpoch, OtherKeysFirst, rules_of

HELD_S = 2400.0  # longer than anybody waits for the others
# The other ways are for batches that take little of this, also if many are at work here.
IN_TIME = {**EACH_A_BATCH, "transaction.timeout.ms": "900000"}
ROW = "key binary, value string"


@dataclass(frozen=True, slots=True)
class Pipeline:
    servers: str
    topic: str
    stop_at: str = ""  # a step of batch 1
    faults: Mapping[str, str] = field(default_factory=dict)  # by the number of the batch
    senders: int = 1
    after: int = SOME_ARE_SENT + 2  # batches of a sender it happens
    requests_of: int | None = REQUEST_BYTES
    rules: str = ""  # which one is left out, see `sink_rules`
    files_at_once: int = 1
    way: Literal["long", "short", "here"] = "long"  # after the first batch, see `sink_ways`


@dataclass(frozen=True, slots=True)
class Work:
    master: str
    files: str
    place: str  # for checkpoints and marks
    pipelines: list[Pipeline]
    settings: Mapping[str, str] = field(default_factory=dict)

    def written_down(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Work:
        told = json.loads(text)
        return cls(**{**told, "pipelines": [Pipeline(**each) for each in told["pipelines"]]})


@dataclass(frozen=True, slots=True)
class Hold:
    """Says that a step is reached, and stays there."""

    step: str
    mark: str
    after: int
    steps: Counter[str] = field(default_factory=Counter)

    def __call__(self, step: str, batch: int) -> None:
        if (step, batch) != (self.step, 1):
            return
        self.steps[step] += 1
        if step == "sending" and self.steps[step] < self.after:
            return
        hidden = Path(f"{self.mark}.new")
        hidden.write_text(str(os.getpid()))
        hidden.rename(self.mark)
        until(lambda: None, "a signal that kills this driver", HELD_S)


def held_mark(place: Path, pipeline: Pipeline) -> Path:
    return place / f"held-{pipeline.topic}"


def _probe(place: Path, pipeline: Pipeline) -> Probe:
    if pipeline.rules == "shared":
        alike = replace(pipeline, rules="")
        return EndOfEpoch(_probe(place, alike), str(_epoch(place, pipeline)))
    if pipeline.stop_at:
        return Hold(pipeline.stop_at, str(held_mark(place, pipeline)), pipeline.after)
    if pipeline.faults:
        return Chaos(str(place), pipeline.topic, dict(pipeline.faults), pipeline.after)
    return unwatched


def _epoch(place: Path, pipeline: Pipeline) -> Path:
    return place / f"epoch-{pipeline.topic}"


def main(text: str) -> None:
    work = Work.read(text)
    place = Path(work.place)
    with sexton.spark.spark_session(work.master, settings=work.settings) as spark:
        queries = []
        for pipeline in work.pipelines:
            reader = spark.readStream.schema(ROW)
            reader = reader.option("maxFilesPerTrigger", pipeline.files_at_once)
            stream = reader.parquet(work.files)
            if pipeline.way == "here":
                stream = stream.selectExpr("key", "trim(value) AS value")  # few bytes
            if pipeline.faults:
                if pipeline.way == "long":
                    stream = stream.repartition(2, "key")  # whose files may be lost, too
                other_keys = OtherKeysFirst(str(place / f"run-{pipeline.topic}"))
                stream = stream.mapInArrow(other_keys, ROW)
            settings = sink_settings(
                topic=pipeline.topic, bootstrap_servers=pipeline.servers,
                options=EACH_A_BATCH if pipeline.way == "long" else IN_TIME,
                probe=_probe(place, pipeline), senders=pipeline.senders,
                rules=rules_of(pipeline.rules, _epoch(place, pipeline)),
                requests_of=pipeline.requests_of,
            )  # fmt: skip
            checkpoint = str(place / f"checkpoint-{pipeline.topic}")
            query = start(stream, settings, checkpoint, trigger={"availableNow": True})
            queries.append(query)
            if pipeline.faults:
                query.awaitTermination()  # one after the other: slots are few
        for query in queries:
            query.awaitTermination()
    print("done")


if __name__ == "__main__":
    main(sys.argv[1])
