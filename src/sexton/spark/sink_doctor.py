"""How is a pipeline: is a transaction of it open, where does its marker stand, may it go on?

    coordinator of its transactional id ──▶ open or not, since when, whose
    offsets of its group                ──▶ the marker: the last batch that is in the topic; and,
                                            with ordered retries, how far its input is handled
    Spark's checkpoint, if it is given  ──▶ the batch that comes next; `is_to_write` knows the rest

To end an open transaction a fresh epoch is taken, as the next attempt of the pipeline would: Kafka
aborts what was open and fences whoever wrote it. That is right whoever is alive. Only a driver
commits, by an epoch that is fenced now; so nothing of the batch becomes visible, its marker has not
moved, and the pipeline runs it again.

Nothing here needs Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlparse

from sexton.base.errors import ConfigError, PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.groups import list_groups
from sexton.client.retrying import Patience
from sexton.client.transacting import Committed, group_offsets, init_producer_id
from sexton.client.transaction_lists import describe_transaction, list_transactions
from sexton.client.transactions import Transaction
from sexton.machines.retry_records import Watermark
from sexton.spark.batch_plans import NOT_YET, UNTOLD, planned_ms
from sexton.spark.sink_marker import Batch, Marker, SinkRefused, is_to_write
from sexton.spark.sink_memory import is_older, retention_ms
from sexton.spark.sink_protocol import PREFIX

ONGOING = "Ongoing"  # the one state of an open transaction in which nothing is decided
_SHORTLY = Patience(timeout_ms=10_000)
_RUN = "doctor"  # no run of a driver has this name


@dataclass(frozen=True, slots=True)
class Checkup:
    """One pipeline as Kafka has it."""

    pipeline: str
    transaction: Transaction | None  # None: no coordinator knows of it
    marker: Marker | None
    marker_at: TopicPartition | None
    foreign: SinkRefused | None  # the group has an offset that is no marker
    retention_ms: int | None  # of the marker; None: the brokers do not say
    positions: int = 0  # partitions of its input that ordered retries have a position of

    @property
    def is_open(self) -> bool:
        return self.transaction is not None and self.transaction.is_open

    @property
    def is_unknown(self) -> bool:
        known = self.transaction or self.marker or self.foreign or self.positions
        return not known

    @property
    def expires_ms(self) -> int | None:
        """When Kafka may forget the marker, if nothing is written until then."""
        if self.marker is None or self.marker.at_ms < 0 or self.retention_ms is None:
            return None
        return self.marker.at_ms + self.retention_ms


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where Spark is with a query."""

    query: str
    next_batch: int  # that it will run when it is started
    planned_ms: int = UNTOLD


def read_checkpoint(text: str) -> Checkpoint:
    """From a directory of this machine, as Spark writes it."""
    url = urlparse(text)
    if url.scheme not in ("", "file"):
        hint = "copy its files metadata, offsets and commits here, or give --query-id"
        raise ConfigError("--checkpoint", f"{text} is not on this machine", hint)
    place = Path(url.path if url.scheme else text)
    try:
        query = str(json.loads((place / "metadata").read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"is not a checkpoint of Spark's: {_wrong_with_metadata(error)}"
        hint = "name the directory that the query has as checkpointLocation"
        raise ConfigError(str(place), why, hint) from error
    planned, finished = _newest(place / "offsets"), _newest(place / "commits")
    if planned <= finished:
        return Checkpoint(query, finished + 1, NOT_YET)
    return Checkpoint(query, planned, _planned_ms(place / "offsets" / str(planned)))


def _planned_ms(offsets: Path) -> int:
    """As Spark writes them: a version, what is beside the offsets, and those of each source."""
    try:
        _version, metadata, *_ = offsets.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return UNTOLD
    return planned_ms(metadata)


def _wrong_with_metadata(error: Exception) -> str:
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return "it has no file `metadata`"
        case OSError():
            return f"its file `metadata` cannot be read: {(error.strerror or str(error)).lower()}"
        case _:
            return "its file `metadata` names no query"


def _newest(log: Path) -> int:
    """The highest number of a batch in one of Spark's logs; -1: there is none."""
    numbers = [int(p.name) for p in log.iterdir() if p.name.isdecimal()] if log.is_dir() else []
    return max(numbers, default=-1)


def next_step(checkpoint: Checkpoint, checkup: Checkup) -> bool:
    """Will the next batch be written? False: it is there already. SinkRefused: neither."""
    batch = Batch(
        checkup.pipeline, checkpoint.next_batch, checkpoint.query, _RUN,
        planned_ms=checkpoint.planned_ms,
    )  # fmt: skip
    batch = replace(batch, may_be_forgotten=is_older(batch, checkup.retention_ms))
    return is_to_write(batch, checkup.marker)


async def all_pipelines(client: Client) -> tuple[list[str], list[tuple[str, str]]]:
    """The names of those that Kafka knows of; and whom we could not ask, with the reason."""
    listed = await list_transactions(client)
    names = {each.transactional_id for each in listed.found}
    unasked = [(f"broker {node}", why) for node, why in listed.unasked]
    try:
        names |= {each.group_id for each in await list_groups(client, _SHORTLY)}
    except (PeerError, Refused) as error:
        unasked.append((error.subject, error.why))
    ours = sorted(n.removeprefix(PREFIX) for n in names if n.startswith(PREFIX))
    return ours, unasked


async def check_up(client: Client, pipelines: Iterable[str]) -> list[Checkup]:
    kept_ms = await retention_ms(client)
    return [await _of_one(client, name, kept_ms) for name in pipelines]


async def _of_one(client: Client, pipeline: str, retention_ms: int | None) -> Checkup:
    known_as = PREFIX + pipeline
    try:
        transaction = await describe_transaction(client, known_as)
    except Refused as error:
        if error.error != KafkaError.TRANSACTIONAL_ID_NOT_FOUND:
            raise
        transaction = None
    offsets = await group_offsets(client, known_as, _SHORTLY)
    ours = {at: each for at, each in offsets.items() if Watermark.decode(each.metadata) is None}
    marker, place, foreign = None, None, None
    for at, committed in sorted(ours.items()):
        try:
            found = _marker(committed, known_as)
        except SinkRefused as error:
            foreign = error
            continue
        if marker is None or found.at_ms > marker.at_ms:
            marker, place = found, at
    positions = len(offsets) - len(ours)
    return Checkup(pipeline, transaction, marker, place, foreign, retention_ms, positions)


def _marker(committed: Committed, group: str) -> Marker:
    marker = Marker.from_committed(committed, group)
    assert marker is not None
    return marker


async def end_open(client: Client, checkup: Checkup, patience: Patience) -> None:
    """Returns when the transaction is aborted. It must be `ONGOING`: all else is decided."""
    transaction = checkup.transaction
    assert transaction is not None and transaction.state == ONGOING
    await init_producer_id(client, transaction.transactional_id, transaction.timeout_ms, patience)
