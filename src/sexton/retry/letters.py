"""What does the dead letter topic hold, and which of it is still somebody's to decide?

    dead-3   order-123   the message     its letter: attempts, reason, held or freed
             order-123   null            a note: it was sent to the main topic again, as orders-3-21

Letters stay until their time is over, whatever became of their message. So a letter alone does not
say that something is left to do; the notes behind it and the locks do:

    held          its message has reached the ceiling and holds its key
    waits         its message has been redriven in its place, or has come back by a crash
    sent again    a note says so, and as which message
    settled       it was held, and does not wait any more: it was handled, skipped or discarded
    freed         nobody has done anything about it

A note comes after its letter in one partition, and Kafka deletes from the front: where a letter can
still be read, so can the note. So whoever reads the newest letters only is right about these. And a
letter that comes after a note is another matter: somebody has set the group's offset back, say, and
the message has failed for good once more. A note speaks of the letters before it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.listing import EARLIEST, LATEST, list_offsets
from sexton.client.reading import PartitionReader
from sexton.client.replica import Isolation
from sexton.client.retry_reading import WAITING
from sexton.client.retrying import PATIENT
from sexton.machines.retry_pending import Pending
from sexton.machines.retry_records import NoteSays, TaskName, read_letter
from sexton.records.columns import Record
from sexton.retry.reading import committed_columns
from sexton.retry.topics import Names

State = Literal["held", "waits", "sent again", "settled", "freed"]
OPEN: Final = ("held", "freed")  # somebody has to decide


class Letter(NamedTuple):
    id: int
    offset: int  # in the dead letter topic
    key: bytes | None
    written_ms: int
    attempts: int
    reason: str
    held: bool  # when it was written


class Note(NamedTuple):
    offset: int
    sent_as: str


@dataclass(slots=True)
class Letters:
    """Of one partition, without their messages but for those that were asked for."""

    name: TaskName
    letters: list[Letter] = field(default_factory=list)
    notes: dict[int, list[Note]] = field(default_factory=dict)  # by id
    last: dict[int, Letter] = field(default_factory=dict)  # of each message
    records: dict[int, Record] = field(default_factory=dict)
    not_read: int = 0  # at most so many older ones are there: offsets, markers among them

    def state(self, letter: Letter, pending: Pending) -> State:
        held = pending.held.get(letter.id)
        if held is not None:
            return "held" if held.dead else "waits"
        return self.settled_state(letter)

    def settled_state(self, letter: Letter) -> State:
        """If its message does not wait."""
        if self.sent_as(letter):
            return "sent again"
        return "settled" if letter.held else "freed"

    def sent_as(self, letter: Letter) -> tuple[str, ...]:
        """As which messages; none: it was not sent again."""
        notes = self.notes.get(letter.id, ())
        return tuple(note.sent_as for note in notes if note.offset > letter.offset)

    def freed(self, pending: Pending) -> int:
        """Messages, not letters: one that is skipped twice in a crash has two."""
        return sum(self.state(letter, pending) == "freed" for letter in self.last.values())


async def read_letters(
    client: Client,
    names: Names,
    name: TaskName,
    *,
    keep: Collection[int] = (),
    to_the_end: bool = False,
    newest: int | None = None,
) -> Letters:
    """What is committed now; `to_the_end` waits for transactions that are open.

    `keep` names messages whose last letter is wanted as a whole. `newest`: so many offsets at most,
    the last ones. A letter has its whole message with it, and they are kept for a month.
    """
    at = TopicPartition(names.dead, name.partition)
    first = (await list_offsets(client, {at: EARLIEST}))[at]
    seen = Isolation.READ_UNCOMMITTED if to_the_end else Isolation.READ_COMMITTED
    end = (await list_offsets(client, {at: LATEST}, seen))[at]
    start = first if newest is None else max(first, end - newest)
    found = Letters(name, not_read=start - first)
    async for record in _records(client, at, start, end, to_the_end):
        says = read_letter(record.headers)
        message = None if says is None else name.offset_of(says.id)
        if says is None or message is None:
            continue  # somebody else's record
        if isinstance(says, NoteSays):
            note = Note(record.offset, says.sent_as)
            found.notes.setdefault(message, []).append(note)
            continue
        letter = Letter(
            message, record.offset, record.key, record.timestamp, says.attempts, says.reason,
            says.held,
        )  # fmt: skip
        found.letters.append(letter)
        found.last[message] = letter
        if message in keep:
            found.records[message] = record
    return found


async def _records(
    client: Client, at: TopicPartition, start: int, end: int, to_the_end: bool
) -> AsyncGenerator[Record, None]:
    reader = PartitionReader(client, at, patience=WAITING if to_the_end else PATIENT)
    async for chunk in reader.read(start, end, isolation=Isolation.READ_COMMITTED):
        for record in committed_columns(chunk, at).records():
            if record.offset >= start:  # the first batch may begin before it
                yield record
