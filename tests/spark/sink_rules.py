"""The sink with one of its rules left out, by name: what its tests must notice.

unmarked   every batch is to be written, whatever the marker says
shared     all attempts at a batch have one epoch
believed   the marker that the attempt began with is the last one, whoever told it
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from sexton.client.client import Client
from sexton.client.transacting import Committed, Transaction, init_producer_id
from sexton.spark.sink_marker import Batch, Marker
from sexton.spark.sink_protocol import RULES, Probe, Rules


def rules_of(name: str, kept: Path) -> Rules:
    """`kept` is where attempts find the epoch of the first one."""
    if name == "unmarked":
        return replace(RULES, is_to_write=always)
    if name == "shared":
        return replace(RULES, fresh_epoch=SharedEpoch(str(kept)))
    if name == "believed":
        return replace(RULES, is_the_last=whoever_told)
    assert not name, name
    return RULES


def always(_batch: Batch, _marker: Marker | None) -> bool:
    return True


def whoever_told(_begun: Committed | None, _found: Committed | None) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class EndOfEpoch:
    """Around another probe: the next batch would find the epoch that was kept used up."""

    probe: Probe
    kept: str

    def __call__(self, step: str, batch: int) -> None:
        self.probe(step, batch)
        if step == "committed":
            Path(self.kept).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class SharedEpoch:
    """For all attempts at a batch, whichever process makes them."""

    kept: str

    async def __call__(self, client: Client, *asked: Any) -> Transaction:
        found = self._found()
        if found is None:
            found = await init_producer_id(client, *asked)
            self._keep(found)
        return found

    def _found(self) -> Transaction | None:
        try:
            return Transaction(*json.loads(Path(self.kept).read_text()))
        except FileNotFoundError:
            return None

    def _keep(self, transaction: Transaction) -> None:
        written = Path(f"{self.kept}.{os.getpid()}")
        written.write_text(json.dumps(astuple(transaction)))
        written.rename(self.kept)


@dataclass(frozen=True, slots=True)
class OtherKeysFirst:
    """Rows as many sources have them: those of a key in order, and keys in another one each time.

    It is what the second rule is for. Attempts that send the same batches in the same order may
    share an epoch; whoever takes rows from a shuffle or a query has no such order.
    """

    place: str  # where each run is counted

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        by_key: dict[bytes, list[pa.RecordBatch]] = {}
        for batch in batches:
            for number, key in enumerate(batch.column("key").to_pylist()):
                by_key.setdefault(key, []).append(batch.slice(number, 1))
        keys = sorted(by_key)
        turn = self._run(context.partitionId()) % max(len(keys), 1)
        yield from chain.from_iterable(by_key[key] for key in keys[turn:] + keys[:turn])

    def _run(self, partition: int) -> int:
        number = 0
        while True:
            try:
                os.close(os.open(f"{self.place}-{partition}-{number}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                number += 1
            else:
                return number
