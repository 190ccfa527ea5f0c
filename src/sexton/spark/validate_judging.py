"""A DataFrame held against what was promised: at once, or batch by batch as a query.

rows ──▶ by partition, in order ──▶ facts (tasks, `validate_frame`) ──▶ proof
                                     └─ a stream keeps them in its checkpoint, and goes on
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sexton.audit.validation import PartitionFacts, Rules, Sighting
from sexton.base.errors import ConfigError
from sexton.base.findings import Finding
from sexton.report.validation_page import ValidationPage, finding_of
from sexton.spark.validate_frame import FACTS, FramePlan, folder, prepared
from sexton.spark.validate_proof import Proof, now_ms, summed
from sexton.spark.validate_telling import Telling
from sexton.survey.validating_question import local_path
from sexton.survey.validating_state import Checkpoint, Kept, added

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

OnFinding = Callable[[list[Finding]], None]
OF_STREAMS = "goes with a DataFrame that is a stream"


def refuse(why: str, **given: object) -> None:
    """What is not used is not taken: whoever gave it counts on it."""
    for name, each in given.items():
        if each is not None:
            raise ConfigError(name, why, None)


class Frame:
    """A DataFrame, and what has to hold for it."""

    def __init__(
        self,
        df: DataFrame,
        rules: Rules,
        expressions: Mapping[str, str | Column | None],
        most_keys: int,
        show_keys: bool,
    ) -> None:
        from pyspark.sql import functions

        if not any((rules.value, rules.sequence, rules.id)):
            hint = "give value=, sequence= or id="
            raise ConfigError("validate", "is not told what must hold", hint)
        if rules.rising == "rising" and rules.value is None:
            raise ConfigError("rising", "needs value", "give value=")
        self._df, self._rules, self._most_keys = df, rules, most_keys
        self._show_keys = show_keys
        self._asked = {
            name: functions.expr(each) if isinstance(each, str) else each
            for name, each in expressions.items()
            if each is not None
        }
        prepared(df, self._asked)  # what is wrong with its columns is said now

    def judge(
        self,
        place: Path | None,
        trigger: Mapping[str, Any] | None,
        on_finding: OnFinding | None,
    ) -> Proof | StreamingQuery:
        if self._df.isStreaming:
            return self.start(place, trigger, on_finding)
        refuse(OF_STREAMS, checkpoint=place, trigger=trigger, on_finding=on_finding)
        return self.proof()

    def proof(self) -> Proof:
        started_ms = now_ms()
        facts = [each for each, _files in self._folded(self._df)]
        return Proof(summed(facts, self._rules, (), started_ms), show_keys=self._show_keys)

    def _folded(
        self, df: DataFrame, checkpoint: Checkpoint | None = None, *, again: bool = False
    ) -> list[tuple[PartitionFacts, tuple[str, ...]]]:
        rows, fractions = prepared(df, self._asked)
        seed = random.SystemRandom().getrandbits(63) if checkpoint is None else checkpoint.seed
        kept = {} if checkpoint is None else checkpoint.kept
        plan = FramePlan(
            self._rules, seed, fractions, self._most_keys,
            "" if checkpoint is None else str(checkpoint.directory.absolute()),
            {at: (each.next, each.files) for at, each in kept.items()}, again,
        )  # fmt: skip
        told = rows.mapInArrow(folder(plan), FACTS).collect()
        return [
            (PartitionFacts.from_json(json.loads(row.facts)), tuple(json.loads(row.files)))
            for row in told
        ]

    def start(
        self,
        place: Path | None,
        trigger: Mapping[str, Any] | None,
        on_finding: OnFinding | None,
    ) -> StreamingQuery:
        if place is None:
            hint = "checkpoint=, a directory that every executor reaches"
            raise ConfigError("validate", "a stream needs a checkpoint", hint)
        checkpoint = Checkpoint.open(place / "state", "stream", self._rules)

        def tell(found: list[Sighting]) -> None:
            assert on_finding is not None
            page = self._page(checkpoint)
            on_finding([finding_of(each, page) for each in found])

        telling = Telling(place, checkpoint, tell if on_finding is not None else None)

        def judge(df: DataFrame, number: int) -> None:
            telling.tell()
            found: list[Sighting] = []
            steps: dict[Any, Kept] = {}
            # A later batch has later offsets. One with this number or a lower one is run again.
            again = checkpoint.batch is None or number <= checkpoint.batch
            for facts, files in self._folded(df, checkpoint, again=again):
                before = checkpoint.kept.get(facts.partition)
                total = added(before.facts if before else None, facts)
                steps[facts.partition] = Kept(facts.end, files, total)
                found += facts.sightings
            telling.will_be_kept(found)
            checkpoint.batch = max(number, -1 if checkpoint.batch is None else checkpoint.batch)
            checkpoint.commit(steps)
            telling.tell()

        writer = self._df.writeStream.foreachBatch(judge)
        writer = writer.option("checkpointLocation", str(place / "spark"))
        if trigger:
            writer = writer.trigger(**trigger)
        return writer.start()

    def _page(self, checkpoint: Checkpoint) -> ValidationPage:
        facts = [each.facts for each in checkpoint.kept.values()]
        validation = summed(facts, self._rules, tuple(checkpoint.limits), now_ms())
        return Proof(validation, show_keys=self._show_keys).page


def stream_proof(checkpoint: str | Path, *, show_keys: bool = False) -> Proof:
    """What the validation of a stream has found so far, from its checkpoint."""
    path = local_path(checkpoint) / "state"
    found = Checkpoint.look(path)
    facts = [each.facts for each in found.kept.values()]
    validation = summed(facts, found.rules, tuple(found.limits), now_ms())
    return Proof(validation, show_keys=show_keys)
