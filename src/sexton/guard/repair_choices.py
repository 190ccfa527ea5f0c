"""Where no replica is known to be right, somebody decides, and says so to all replicas alike.

A key that replicas disagree about is written once more: a tombstone if it was deleted, or the value
that one of them has, with its headers. The new record reaches every replica, and what they held
before is superseded. Nothing is chosen here: which of the two it is, and whose value, comes from a
person.

That person has decided by what an audit saw. A key that was written again since then is another
matter: all replicas have the new record, and ours would bury it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sexton.audit.finding import AuditFinding
from sexton.audit.summary import key_in_words
from sexton.base.digests import digest, hex_digest
from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.client.appending import append_batch
from sexton.client.client import Client
from sexton.client.reading import PartitionReader
from sexton.client.replica import Isolation
from sexton.records import Spans, decode, encode, rows


@dataclass(frozen=True, slots=True)
class Choice:
    """What is written about a key."""

    partition: TopicPartition
    key: bytes
    keep: bool  # its value; False: a tombstone
    broker: int | None = None  # whose value

    def in_words(self, *, plain_keys: bool) -> str:
        key = key_in_words(self.key, plain=plain_keys)
        if self.keep:
            return f"write again the value that broker {self.broker} has for the key {key}"
        return f"write a tombstone for the key {key}"


def choices_of(
    findings: Iterable[AuditFinding],
    tombstones: Sequence[str],
    values: Sequence[str],
    broker: int | None,
) -> list[Choice]:
    """What a person asked for, by the keys that were found; ConfigError for one that was not."""
    about = [finding for finding in findings if finding.key is not None]
    chosen = [Choice(each.partition, _key(each), False) for each in _named(about, tombstones)]
    chosen += [
        Choice(each.partition, _key(each), True, _holder(each, broker))
        for each in _named(about, values, "--keep-value")
    ]
    keys = [(each.partition, each.key) for each in chosen]
    if len({*keys}) < len(keys):
        raise ConfigError("--keep-value", "and --publish-tombstone name the same key")
    return chosen


def _key(finding: AuditFinding) -> bytes:
    assert finding.key is not None
    return finding.key


def _named(
    findings: Sequence[AuditFinding],
    names: Sequence[str],
    option: str = "--publish-tombstone",
) -> list[AuditFinding]:
    found = []
    for name in names:
        matches = [each for each in findings if _is_called(_key(each), name)]
        if not matches:
            hint = "as text, as 0x and hexadecimal digits, or as the digest that the audit shows"
            raise ConfigError(f"{option} {name}", "the replicas do not differ in this key", hint)
        if len({_key(each) for each in matches}) > 1:
            hint = "give the digest of the one that is meant: the audit shows it"
            raise ConfigError(f"{option} {name}", "could be one of several keys", hint)
        found.append(matches[0])
    return found


def _is_called(key: bytes, name: str) -> bool:
    typed = name.encode("utf-8", "surrogateescape")  # as a shell passed it on, whatever it is
    return key == typed or name in (digest(key), hex_digest(key), "0x" + key.hex())


def _holder(finding: AuditFinding, broker: int | None) -> int:
    """The replica whose value it is to be."""
    having = {node: value for node, value in finding.values.items() if value is not None}
    if broker is not None:
        if broker not in having:
            who = ", ".join(map(str, sorted(having))) or "no broker"
            raise ConfigError(f"--as-on {broker}", "has no value of this key", f"{who} has one")
        return broker
    if len({*having.values()}) != 1:
        hint = "choose whose value to keep with --as-on BROKER"
        why = "no replica has a value" if not having else "replicas have different values"
        raise ConfigError("--keep-value", why, hint)
    return min(having)


async def check_unwritten(
    client: Client,
    choices: Sequence[Choice],
    findings: Iterable[AuditFinding],
    ends: Mapping[TopicPartition, int],
    *,
    plain_keys: bool,
) -> None:
    """ConfigError if one of these keys was written since the audit, in a transaction that is under
    way maybe. `ends`: where the audit of a partition ended, on the replica with the least."""
    about = list(findings)
    for choice in choices:
        known = [each for each in _finding_of(choice, about).offsets.values() if each is not None]
        start = max(ends.get(choice.partition, 0), max(known, default=-1) + 1)
        if await _is_written(client, choice, start):
            why = "was written again since the audit, and what is there now would be lost"
            subject = f"the key {key_in_words(choice.key, plain=plain_keys)}"
            raise ConfigError(subject, why, "run it again: the replicas may agree about it by now")


async def _is_written(client: Client, choice: Choice, start: int) -> bool:
    """Is the key in the leader's log, from there on?"""
    leader = (await client.place(choice.partition)).leader
    stands = await client.replica(choice.partition, leader).offsets()
    start = max(start, stands.log_start)
    chunks = PartitionReader(client, choice.partition).read(start, stands.high_watermark)
    async with aclosing(chunks):
        async for chunk in chunks:
            for batch in chunk.batches():
                if batch.header.is_control:
                    continue
                columns = decode(batch.data, str(choice.partition))
                if choice.key in columns.key.take(columns.offset >= start).to_list():
                    return True
    return False


def _finding_of(choice: Choice, findings: Iterable[AuditFinding]) -> AuditFinding:
    at = choice.partition, choice.key
    return next(each for each in findings if (each.partition, each.key) == at)


async def publish(client: Client, choice: Choice, findings: Iterable[AuditFinding]) -> int:
    """Writes it; the offset of the new record."""
    kept: _Kept | None = None
    if choice.keep:
        assert choice.broker is not None
        offset = _finding_of(choice, findings).offsets[choice.broker]
        assert offset is not None
        kept = await _kept(client, choice, choice.broker, offset)
    return await append_batch(client, choice.partition, _batch(choice.key, kept))


class _Kept(NamedTuple):
    value: bytes
    headers: bytes  # as they are on the wire


def _batch(key: bytes, kept: _Kept | None) -> bytes:
    """One record, of now; a tombstone if none is kept."""
    return encode(
        rows(
            np.array([time.time_ns() // 1_000_000]),
            Spans.from_list([key]),
            Spans.from_list([None if kept is None else kept.value]),
            None if kept is None else Spans.from_list([kept.headers]),
        )
    )


async def _kept(client: Client, choice: Choice, node: int, offset: int) -> _Kept:
    replica = client.replica(choice.partition, node)
    async for chunk in replica.read(
        offset, end=offset + 1, isolation=Isolation.READ_UNCOMMITTED, chunk_bytes=1 << 20
    ):
        for batch in chunk.batches():
            if not batch.header.base_offset <= offset <= batch.header.last_offset:
                continue
            columns = decode(batch.data, f"{choice.partition} on broker {node}")
            for row in np.flatnonzero(columns.offset == offset).tolist():
                value, headers = columns.value[row], columns.headers[row]
                if columns.key[row] == choice.key and value is not None and headers is not None:
                    return _Kept(value, headers)
    why = f"no longer holds the value at offset {offset}"
    raise ConfigError(f"broker {node}", why, "audit again")
