"""Is this batch in the topic already? The marker knows.

With its records every transaction commits a marker: the number of the batch, as the committed
offset of a group that nobody else uses. It is read after a fresh epoch was taken, so whatever is
found is final: no earlier attempt can commit any more.

    marker          batch 7 is
    6               to be written
    7               written, if it is the same plan; the driver died before Spark heard of it
    anything else   not to be written by anyone: checkpoint and topic tell different stories

With the marker goes who has written it: the query, by the id in its checkpoint, and the run of its
driver. That tells a marker of this pipeline from one of another that has the same name, and two
drivers that work at the same time from one that took over. And when Spark planned the batch: a
checkpoint that was restored as it was before batch 7 has Spark plan another batch 7, with what has
come since (`batch_plans`).

It is kept as the offset of a topic's partition. A run that is told to keep it by another topic
would not find it, and take what is there for new: so a marker elsewhere in the group is looked for,
too. Nor does it prove anything that the first batch of all has no marker, if Spark planned it so
long ago that Kafka may have forgotten one (`sink_memory`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from sexton.base.errors import SextonError
from sexton.base.partitions import TopicPartition
from sexton.client.transacting import Committed
from sexton.spark.batch_plans import UNTOLD

BEFORE_ALL = -1  # the batch before the first
_NEWEST = (
    "an older checkpoint was restored, or another driver works on this pipeline: go on with the "
    "newest checkpoint"
)


class SinkRefused(SextonError):
    """Writing now would be wrong, and writing again would not change that."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What is to be written, and by whom."""

    pipeline: str  # names the transactional id and the marker's group
    number: int
    query: str  # the id in the checkpoint; a job has none but its name
    run: str  # of this driver
    committed_before: bool = False  # by this run, a batch of this pipeline
    after: int | None = None  # the user's word for what is in the topic, if no marker is
    planned_ms: int = UNTOLD
    may_be_forgotten: bool = False  # it was planned longer ago than Kafka keeps a marker


@dataclass(frozen=True, slots=True)
class Marker:
    batch: int
    query: str
    run: str
    rows: int
    at_ms: int = -1  # when the driver wrote it, by its clock; -1: it did not say
    planned_ms: int = UNTOLD  # when the batch was planned

    def to_committed(self) -> Committed:
        told = {
            "query": self.query, "run": self.run, "rows": self.rows, "at": self.at_ms,
            "planned": self.planned_ms,
        }  # fmt: skip
        return Committed(self.batch, json.dumps(told))

    @classmethod
    def from_committed(cls, found: Committed | None, group: str) -> Marker | None:
        if found is None:
            return None
        try:
            told = json.loads(found.metadata)
            return cls(
                found.offset, str(told["query"]), str(told["run"]), int(told["rows"]),
                int(told.get("at", -1)), int(told.get("planned", UNTOLD)),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError):
            hint = f"choose another name for this pipeline, or delete the group {group}"
            why = "was committed by somebody else; it is kept for the marker of this sink"
            raise SinkRefused(f"the offset of the group {group}", why, hint) from None


def is_to_write(batch: Batch, marker: Marker | None) -> bool:
    """False: it is there already. SinkRefused, if neither can be right."""
    last = _last(batch, marker)
    if marker is not None:
        _same_pipeline(batch, marker)
        _same_plan(batch, marker)
    elif batch.number == 0 and batch.after is None and batch.may_be_forgotten:
        raise _forgotten(batch)
    if last == batch.number:
        return False
    if last == batch.number - 1:
        return True
    if last < batch.number:
        raise _gap(batch, marker, last)
    raise _behind(batch, last)


def elsewhere(
    batch: Batch, at: TopicPartition, offsets: Mapping[TopicPartition, Committed], group: str
) -> SinkRefused | None:
    """Does the group have a marker at another place than the one that this run is told of?"""
    for place, committed in sorted(offsets.items()):
        try:
            marker = None if place == at else Marker.from_committed(committed, group)
        except SinkRefused:
            continue  # a position of an ordered retry, or of somebody who has lost his way
        if marker is not None:
            why = (
                f"its marker, batch {marker.batch}, is kept by the topic {place.topic}, and this "
                f"run would keep one by {at.topic}: what is there would be written again"
            )
            hint = (
                f"give marker_topic={place.topic!r} (in an ordered retry it is the lock_topic); or "
                "if this is another pipeline or job, a name or job_id of its own"
            )
            return SinkRefused(batch.pipeline, why, hint)
    return None


def _last(batch: Batch, marker: Marker | None) -> int:
    if marker is not None:
        return marker.batch
    return BEFORE_ALL if batch.after is None else batch.after


def _same_pipeline(batch: Batch, marker: Marker) -> None:
    if marker.query != batch.query:
        why = (
            f"the topic was last written by the query {marker.query} (batch {marker.batch}), "
            f"this is {batch.query}: it has another checkpoint"
        )
        hint = "go on with the old checkpoint, or give the new pipeline a name of its own"
        raise SinkRefused(batch.pipeline, why, hint)
    if batch.committed_before and marker.run != batch.run:
        why = f"another driver has committed batch {marker.batch} while this one was at work"
        raise SinkRefused(batch.pipeline, why, "stop one of the two; nothing is lost or doubled")


def _same_plan(batch: Batch, marker: Marker) -> None:
    if marker.batch != batch.number or UNTOLD in (marker.planned_ms, batch.planned_ms):
        return
    if marker.planned_ms != batch.planned_ms:
        why = (
            f"the topic has batch {batch.number} as it was planned before, and Spark has planned "
            "it anew: what is only in one of the two would be missing or doubled"
        )
        raise SinkRefused(batch.pipeline, why, _NEWEST)


def _gap(batch: Batch, marker: Marker | None, last: int) -> SinkRefused:
    if marker is None:
        why = f"Kafka has no marker, but batch {batch.number} is not the first one"
        hint = (
            "the marker expires if nothing is written for offsets.retention.minutes, and goes with "
            "its topic; or is this another cluster? If you know what is in the topic, say so: "
            f"after_batch={batch.number - 1} if it has all batches before this one, "
            f"after_batch={batch.number} if it has this one, too"
        )
        return SinkRefused(batch.pipeline, why, hint)
    why = (
        f"the topic has all batches up to {last}, and Spark goes on with {batch.number}: "
        f"{batch.number - 1 - last} in between would be missing"
    )
    return SinkRefused(batch.pipeline, why, "is this checkpoint the one of this topic?")


def _forgotten(batch: Batch) -> SinkRefused:
    why = (
        f"Kafka has no marker, and Spark planned batch {batch.number} longer ago than Kafka keeps "
        "one (offsets.retention.minutes): it may be in the topic, or not"
    )
    hint = (
        "look whether the topic has its rows: after_batch=-1 says that it has not, and they are "
        f"written; after_batch={batch.number} that it has"
    )
    return SinkRefused(batch.pipeline, why, hint)


def _behind(batch: Batch, last: int) -> SinkRefused:
    why = f"the topic has all batches up to {last}, and Spark begins again with {batch.number}"
    return SinkRefused(batch.pipeline, why, _NEWEST)
