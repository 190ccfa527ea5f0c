"""Run by tests of retry pipelines as a driver of its own: one JSON argument (`Work`).

The rows of each pipeline are in files, with their places in a topic, and come one file a batch. It
goes on until it is killed. A probe may hold a pipeline at a step of a batch until this
process is killed, and a handler may kill its executor, or be slow until its copy has overtaken it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import sexton.spark
from sexton.machines.retry_settings import Backoff, Settings
from sexton.spark.retry import pipeline_of, start
from sexton.spark.sink_protocol import Probe, unwatched
from sexton.testing.waiting import until
from tests.spark.retry_pipelines import COLUMNS
from tests.spark.sink_chaos import _kill_executor
from tests.spark.sink_driver import HELD_S

if TYPE_CHECKING:
    from sexton.spark import Message

KEYS, ROWS = 6, 24  # of a file: as in `retry_pipelines`
FAILS_EACH = 7  # every seventh row fails once or twice
EPOCH_S = 1_700_000_000


@dataclass(frozen=True, slots=True)
class Pipeline:
    servers: str
    topic: str
    stop_at: str = ""  # a step of batch 1
    fault: str = ""  # of a handler: see `Handler`

    @property
    def output(self) -> str:
        return f"{self.topic}-out"


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


def held_mark(place: Path, pipeline: Pipeline) -> Path:
    return place / f"held-{pipeline.topic}"


def rows_to(directory: Path, files: range) -> None:
    """Row n is of key n % 6 and at offset n // 2 of partition n % 2."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    directory.mkdir(exist_ok=True)
    for number in files:
        rows = range(number * ROWS, (number + 1) * ROWS)
        columns = {
            "key": pa.array([f"key-{n % KEYS}".encode() for n in rows], pa.binary()),
            "value": pa.array([str(n).encode() for n in rows], pa.binary()),
            "partition": pa.array([n % 2 for n in rows], pa.int32()),
            "offset": pa.array([n // 2 for n in rows], pa.int64()),
            "timestamp": pa.array(
                [datetime(2024, 6, 1, 12, tzinfo=UTC)] * ROWS, pa.timestamp("us", "UTC")
            ),
        }
        hidden, path = directory / f".{number:05}", directory / f"{number:05}.parquet"
        pq.write_table(pa.table(columns), hidden)
        os.utime(hidden, (EPOCH_S + number, EPOCH_S + number))
        hidden.rename(path)


@dataclass(frozen=True, slots=True)
class Hold:
    """Says that a step is reached, and stays there."""

    step: str
    mark: str

    def __call__(self, step: str, batch: int) -> None:
        if (step, batch) == (self.step, 1):
            Path(self.mark).touch()
            until(lambda: None, "a signal that kills this driver", HELD_S)


@dataclass(frozen=True, slots=True)
class Handler:
    """Fails for some rows at first; in batch 1 something may happen to it, once.

    executor    its executor is killed when it has handled most of its rows
    slow        it waits until a copy of its task has handled the same row, and fails then
    """

    place: str
    topic: str
    fault: str

    def __call__(self, message: Message) -> bytes | None:
        number = int(message.value or b"")
        if self.fault and number == ROWS + 20:
            getattr(self, f"_{self.fault}")()
        if number % FAILS_EACH == 0 and message.attempts < 1 + number % 2:
            raise ValueError(f"not {number} yet")
        return message.value

    def _mark(self, name: str) -> Path:
        return Path(self.place) / f"{self.topic}-{name}"

    def _once(self, name: str) -> bool:
        try:
            self._mark(name).mkdir()
        except FileExistsError:
            return False
        return True

    def _executor(self) -> None:
        if self._once("executor"):
            _kill_executor()

    def _slow(self) -> None:
        if self._once("slow"):
            until(self._mark("copied").exists, "a copy of this task", HELD_S)
            raise ValueError("it was slow")
        self._mark("copied").touch()


def main(text: str) -> None:
    work = Work.read(text)
    place = Path(work.place)
    with sexton.spark.spark_session(work.master, settings=work.settings) as spark:
        queries = []
        for each in work.pipelines:
            stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
            ours = pipeline_of(
                Handler(work.place, each.topic, each.fault), topic=each.topic,
                output_topic=each.output, bootstrap_servers=each.servers,
                settings=Settings(backoff=Backoff(200, jitter=0.0), ids_per_task=True),
            )  # fmt: skip
            probe: Probe = unwatched
            if each.stop_at:
                probe = Hold(each.stop_at, str(held_mark(place, each)))
            ours = replace(ours, sink=replace(ours.sink, probe=probe))
            checkpoint = str(place / f"checkpoint-{each.topic}")
            queries.append(start(stream.parquet(work.files), ours, checkpoint))
        for query in queries:
            query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
