"""Run by tests of the sink as a driver of its own: one JSON argument (`Work`).

It starts every pipeline it is told of and writes until all files are in the topics. A probe may
hold a pipeline at a step of a batch until this process is killed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import sexton.spark
from sexton.spark.sink import start
from sexton.spark.sink_protocol import Probe, unwatched
from sexton.spark.sink_settings import sink_settings
from sexton.testing.waiting import until
from tests.spark.sink_chaos import Chaos

HELD_S = 300.0


@dataclass(frozen=True, slots=True)
class Pipeline:
    servers: str
    topic: str
    stop_at: str = ""  # a step of batch 1
    faults: Mapping[str, str] = field(default_factory=dict)  # by the number of the batch
    senders: int = 1


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

    def __call__(self, step: str, batch: int) -> None:
        if (step, batch) != (self.step, 1):
            return
        Path(self.mark).touch()
        until(lambda: None, "a signal that kills this driver", HELD_S)


def held_mark(place: Path, pipeline: Pipeline) -> Path:
    return place / f"held-{pipeline.topic}"


def _probe(place: Path, pipeline: Pipeline) -> Probe:
    if pipeline.stop_at:
        return Hold(pipeline.stop_at, str(held_mark(place, pipeline)))
    if pipeline.faults:
        return Chaos(str(place), pipeline.topic, dict(pipeline.faults))
    return unwatched


def main(text: str) -> None:
    work = Work.read(text)
    place = Path(work.place)
    with sexton.spark.spark_session(work.master, settings=work.settings) as spark:
        queries = []
        for pipeline in work.pipelines:
            reader = spark.readStream.schema("key binary, value string")
            stream = reader.option("maxFilesPerTrigger", 1).parquet(work.files)
            if pipeline.faults:
                stream = stream.repartition(2, "key")  # a second shuffle, whose files may be lost
            settings = sink_settings(
                topic=pipeline.topic, bootstrap_servers=pipeline.servers,
                probe=_probe(place, pipeline), senders=pipeline.senders,
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
