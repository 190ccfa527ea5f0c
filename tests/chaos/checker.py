"""Does what clients saw agree with what they were promised? Judged by the history alone.

lost-write         acknowledged or committed, and not in the log at the end
moved-write        acknowledged at one offset, found at another
duplicate          written once, found twice
reordered          one writer's records in another order than it wrote them
aborted-read       a read_committed consumer was given a record of an aborted transaction
torn-transaction   some of a transaction's records are there and some are not
never-ends         a transaction stays open though its client has ended it, or was replaced
refused            an idempotent producer was told that it cannot go on
unanswered         a call did not end, though its client asked and asked
broker-failed      a broker logged an error of its own: an assertion, an unforeseen exception
phantom            a record that nobody wrote
changed-record     two consumers were given different records at the same offset
offsets-went-back  a consumer was given an offset after a higher one
wrong-value        the last value of a key is one that a later acknowledged write replaced
deleted-key-lives  a key whose last write deleted it has a value
lost-key           a key whose last write gave it a value has none
copied-twice       copied to another topic exactly once, and there twice
not-copied         the copiers' group has committed an offset behind it, and it is not there
copied-unread      it is there, and the group's offset is before it
group-went-back    the copiers' group had committed a higher offset before
cannot-copy        all is calm again, and what is left cannot be copied
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tests.chaos.history import Fate, History, Seen, Transaction, Write


@dataclass(frozen=True, slots=True)
class Violation:
    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def check_log(history: History, topic: str, final: list[Seen]) -> Iterator[Violation]:
    """A topic that keeps everything: `final` is all of it, read_committed, once all is calm."""
    writes = {write.name: write for write in history.all_writes() if write.topic == topic}
    found: dict[str, list[Seen]] = defaultdict(list)
    for seen in final:
        found[seen.name].append(seen)
        if seen.name not in writes:
            yield Violation("phantom", f"{_at(seen)} holds {seen.name}, which nobody wrote")
    for name, places in found.items():
        if len(places) > 1:
            yield Violation("duplicate", f"{name} is at {', '.join(map(_at, places))}")
    yield from _plain(history, topic, found)
    for transaction in history.transactions:
        yield from _whole(transaction, topic, found)
    yield from _in_order(history, topic, final)
    for what in history.refused:
        yield Violation("refused", what)
    for what in history.unanswered:
        yield Violation("unanswered", what)


def _plain(history: History, topic: str, found: dict[str, list[Seen]]) -> Iterator[Violation]:
    for write in history.writes:
        if write.topic != topic or write.fate is not Fate.DONE:
            continue
        where = f"{write.name}, acknowledged at {write.partition}:{write.offset}"
        places = found.get(write.name)
        if not places:
            yield Violation("lost-write", f"{where}, is gone")
        elif write.offset >= 0 and places[0].offset != write.offset:
            yield Violation("moved-write", f"{where}, is at {_at(places[0])}")


def _whole(
    transaction: Transaction, topic: str, found: dict[str, list[Seen]]
) -> Iterator[Violation]:
    mine = [write for write in transaction.writes if write.topic == topic]
    there = [write.name for write in mine if write.name in found]
    if transaction.fate is Fate.DONE and len(there) < len(mine):
        gone = [write.name for write in mine if write.name not in found]
        yield Violation("lost-write", f"{', '.join(gone)} committed and gone")
    elif transaction.fate is Fate.NOT_DONE and there:
        yield Violation("aborted-read", f"{', '.join(there)} aborted and shown")
    elif transaction.fate is Fate.UNKNOWN and 0 < len(there) < len(mine):
        yield Violation("torn-transaction", f"only {', '.join(there)} of {len(mine)} are there")


def _in_order(history: History, topic: str, final: list[Seen]) -> Iterator[Violation]:
    """Each writer's records are in its order, in every partition."""
    order = {write.name: number for number, write in enumerate(history.all_writes())}
    last: dict[tuple[int, str], tuple[int, str]] = {}
    for seen in final:
        if seen.topic != topic or seen.name not in order:
            continue
        writer = (seen.partition, seen.name.split(":")[0])
        before = last.get(writer, (-1, ""))
        if order[seen.name] < before[0]:
            yield Violation("reordered", f"{seen.name} comes after {before[1]}")
        last[writer] = (order[seen.name], seen.name)


def check_consumers(history: History) -> Iterator[Violation]:
    """What consumers saw while things went wrong."""
    at: dict[tuple[str, int, int], Seen] = {}
    aborted = {
        write.name
        for transaction in history.transactions
        if transaction.fate is Fate.NOT_DONE
        for write in transaction.writes
    }
    for name, records in history.consumers.items():
        last: dict[tuple[str, int], int] = {}
        for seen in records:
            place = (seen.topic, seen.partition)
            if seen.offset <= last.get(place, -1):
                what = f"{name} got {_at(seen)} after offset {last[place]}"
                yield Violation("offsets-went-back", what)
            last[place] = max(last.get(place, -1), seen.offset)
            if "committed" in name.split("-") and seen.name in aborted:
                yield Violation("aborted-read", f"{name} got {seen.name} at {_at(seen)}")
            other = at.setdefault((*place, seen.offset), seen)
            if other != seen:
                what = f"{_at(seen)} was {other.name} and is {seen.name}"
                yield Violation("changed-record", what)


def check_keys(
    history: History, topic: str, replica: str, final: list[Seen], partition: int | None = None
) -> Iterator[Violation]:
    """A compacted topic, or a partition of it, as one replica shows it.

    Each key has one writer: its order is known.
    """
    shown: dict[bytes, Seen] = {}
    for seen in final:
        shown[seen.key] = seen
    by_key: dict[bytes, list[Write]] = defaultdict(list)
    for write in history.all_writes():
        here = write.topic == topic and partition in (None, write.partition)
        if here and write.fate is not Fate.NOT_DONE:
            by_key[write.key].append(write)
    for key, writes in by_key.items():
        acknowledged = [n for n, write in enumerate(writes) if write.fate is Fate.DONE]
        possible = writes[acknowledged[-1] :] if acknowledged else writes
        value = shown[key].value if key in shown else None
        if value in [write.value for write in possible] or (value is None and not acknowledged):
            continue
        latest = possible[0]
        where = f"{key.decode()} on {replica}"
        if latest.value is None:
            what = f"{where} was deleted by {latest.name} and is {value!r}"
            yield Violation("deleted-key-lives", what)
        elif value is None:
            yield Violation("lost-key", f"{where} was written by {latest.name} and is gone")
        else:
            yield Violation("wrong-value", f"{where} is {value!r}, but {latest.name} came later")


def forgotten(history: History, topic: str, final: list[Seen]) -> int:
    """How many keys were deleted for good and have left no trace, not even their tombstone."""
    last = {write.key: write for write in history.all_writes() if write.topic == topic}
    kept = {seen.key for seen in final}
    deleted = [w for w in last.values() if w.value is None and w.fate is Fate.DONE]
    return sum(1 for write in deleted if write.key not in kept)


def check_copies(
    ledger: list[Seen], copies: list[Seen], committed: dict[int, int]
) -> Iterator[Violation]:
    """A group read one topic and wrote each record to another, its offsets in the transaction."""
    found: dict[str, list[Seen]] = defaultdict(list)
    for copy in copies:
        found[copy.name].append(copy)
    for name, places in found.items():
        if len(places) > 1:
            yield Violation("copied-twice", f"{name} is at {', '.join(map(_at, places))}")
    last: dict[int, int] = {}
    originals = {seen.name: seen for seen in ledger}
    for copy in copies:
        original = originals.get(copy.name)
        if original is None:
            yield Violation("phantom", f"{_at(copy)} holds {copy.name}, which is not in the ledger")
            continue
        if original.offset < last.get(copy.partition, -1):
            yield Violation("reordered", f"the copy of {_at(original)} comes too late")
        last[copy.partition] = original.offset
    for seen in ledger:
        behind = seen.offset < committed.get(seen.partition, 0)
        if behind and seen.name not in found:
            yield Violation("not-copied", f"{seen.name} at {_at(seen)}; {committed} is committed")
        elif not behind and seen.name in found:
            yield Violation("copied-unread", f"{seen.name} at {_at(seen)}; {committed}")


def check_group(history: History) -> Iterator[Violation]:
    """Offsets that a group has committed, as they were told one after another."""
    last: dict[int, int] = {}
    for told in history.committed:
        for partition, offset in told.items():
            if offset < last.get(partition, -1):
                what = f"partition {partition}: {offset} after {last[partition]}"
                yield Violation("group-went-back", what)
            last[partition] = offset


def _at(seen: Seen) -> str:
    return f"{seen.topic}-{seen.partition}:{seen.offset}"
