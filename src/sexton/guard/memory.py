"""The guard's memory: a compacted topic of one partition.

    remember ──Produce, acks=all──▶ [ notes ... ] ──Fetch, up to the high watermark──▶ recall

What was acknowledged is below the high watermark, and `recall` after `remember` reads at least up
to it, whoever leads by then. When a write is not answered the notes may be there or not; the next
recall tells.

`min.insync.replicas` of the topic is 1 on purpose: with two of three brokers down a guard must
still be able to freeze. A note is then on one disk only, until the others are back; each is in the
guard's log lines, too.

Whoever makes the topic by hand, or has a broker make it, may make one that forgets: where old
records are deleted, or one disk has all there is. When a note is gone nobody knows what was set
before, and what is frozen stays so; `forgetful` says it in time.

Should somebody delete the topic, a guard that runs still knows what was in it. `still_known` is
what has to go into a new one: all that anybody would act on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sexton.base.errors import PeerError, Refused, SextonError
from sexton.base.findings import Finding
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.admin import create_topic
from sexton.client.appending import append
from sexton.client.client import Client
from sexton.client.retrying import Patience, Trying
from sexton.guard.permissions import needing
from sexton.machines.guard import Guard
from sexton.machines.guard_notes import Audited, LastSeen, Maintenance, Memory, Saying, encode
from sexton.records.few import KeyAndValue

TOPIC = "_sexton_guard"
MOST_REPLICAS = 3
NOTES_AT_ONCE = 200  # about 600 bytes each
CONFIGS = {
    "cleanup.policy": "compact",
    "min.insync.replicas": "1",
    "segment.ms": str(24 * 3_600_000),  # notes are few: without it nothing would ever be compacted
}
Records = tuple[tuple[int, bytes, bytes | None], ...]


class MemoryLost(SextonError):
    """The topic was deleted."""


class MemoryCut(MemoryLost):
    """The topic is there, and its end is gone: what stands in it is older than what we know."""


class MemoryTopic:
    def __init__(self, client: Client, topic: str = TOPIC, patience_ms: int = 10_000) -> None:
        self._client = client
        self.partition = TopicPartition(topic, 0)
        self._patience = Patience(timeout_ms=patience_ms, backoff_ms=50, unknown_topic_ms=2_000)
        self._topic_id: bytes | None = None
        self._next = 0
        self._written = 0  # one after the last offset that was acknowledged to us

    @property
    def _called(self) -> str:
        return f"topic {self.partition.topic}"

    async def exists(self) -> bool:
        name = self.partition.topic
        with needing("Describe", self._called):
            return name in (await self._client.topology([name])).topics

    async def ensure(self) -> None:
        """Makes the topic if it is not there."""
        if await self.exists():
            return
        brokers = len((await self._client.topology([])).brokers)
        replicas = min(MOST_REPLICAS, brokers)
        try:
            with needing("Create", self._called):
                await create_topic(self._client, self.partition.topic, 1, replicas, CONFIGS)
        except Refused as error:
            if error.error is not KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    async def remember(self, sayings: Sequence[Saying]) -> None:
        with needing("Write", self._called):
            await self._append([encode(saying) for saying in sayings])

    async def forget(self, keys: Sequence[bytes]) -> None:
        with needing("Write", self._called):
            await self._append([(key, None) for key in keys])

    async def _append(self, records: Sequence[KeyAndValue]) -> None:
        for at in range(0, len(records), NOTES_AT_ONCE):
            some = records[at : at + NOTES_AT_ONCE]
            trying = Trying(self._patience)
            while True:
                try:
                    offset = await append(
                        self._client, self.partition, some, self._patience.timeout_ms
                    )
                    break
                except (PeerError, Refused) as error:
                    await trying.pause(error)  # twice in the log is as good as once
                    self._client.look_elsewhere()
            self._written = max(self._written, offset + len(some))

    async def recall(self) -> Records:
        """What is new, at least up to what was acknowledged to us."""
        with needing("Read", self._called):
            return await self._recall()

    async def _recall(self) -> Records:
        trying = Trying(self._patience)
        records: list[tuple[int, bytes, bytes | None]] = []
        while True:
            try:
                records += await self._read()
                if self._next >= self._written:
                    return tuple(records)
                why = f"{self.partition} ends at {self._next}, and {self._written} was acknowledged"
                raise Refused(KafkaError.OFFSET_NOT_AVAILABLE, why)
            except MemoryLost:
                raise
            except (PeerError, Refused) as error:
                await self._pause_or_give_up(trying, error)
                self._client.look_elsewhere()

    async def _pause_or_give_up(self, trying: Trying, error: PeerError | Refused) -> None:
        if isinstance(error, Refused) and error.error is KafkaError.OFFSET_OUT_OF_RANGE:
            raise MemoryCut(str(self.partition), "its end is gone") from error
        try:
            await trying.pause(error)
        except Refused as last:  # every broker has called it unknown for some time
            if last.error is KafkaError.UNKNOWN_TOPIC_OR_PARTITION and self._topic_id is not None:
                raise MemoryLost(str(self.partition), "it was deleted") from last
            raise

    async def _read(self) -> list[tuple[int, bytes, bytes | None]]:
        topology = await self._client.topology([self.partition.topic])
        topic_id = topology.topic(self.partition.topic).topic_id
        if self._topic_id not in (None, topic_id):
            raise MemoryLost(str(self.partition), "it was deleted and made again")
        self._topic_id = topic_id
        place = topology.place(self.partition)
        if place.leader < 0:
            raise Refused(KafkaError.LEADER_NOT_AVAILABLE, f"nobody leads {self.partition}")
        replica = self._client.replica(
            self.partition, place.leader, leader_epoch=place.leader_epoch
        )
        found: list[tuple[int, bytes, bytes | None]] = []
        start = after = self._next
        async for chunk in replica.read(start):
            for batch in chunk.batches():
                if batch.header.is_control:
                    continue
                found += [
                    (record.offset, record.key or b"", record.value)
                    for record in batch.records()
                    if record.offset >= start
                ]
            after = max(after, chunk.next_offset)
        self._next = after  # only now: a read that breaks off is made again as a whole
        return found

    def start_over(self) -> None:
        self._topic_id, self._next, self._written = None, 0, 0


def forgetful(guard: Guard, topic: str) -> Finding | None:
    """May notes get lost there, as this guard sees it?"""
    watched = guard.topics.get(topic)
    if watched is None:
        return None
    options, alone = watched.options, not watched.sight.replicated and len(guard.brokers) > 1
    if options is not None and options.cleanup_policy != "compact":
        message = "old notes are deleted, and topics that they are about then stay frozen"
        remedy = "set its cleanup.policy to compact"
    elif alone:
        message = "one broker has all notes: without its disk, frozen topics stay frozen"
        remedy = "add replicas to it: `sexton cluster reassign`, or kafka-reassign-partitions"
    else:
        return None
    return Finding("guard-forgets", "error", topic, message, {}, remedy)


def still_known(memory: Memory, end: int) -> list[Saying]:
    """For a log that ends there now; a cycle that is over is of no use in it.

    `unwell` tells by offset which audits count no more: none that comes from here on. Audits that
    still counted are said again.
    """
    known: list[Saying] = []
    for entry in memory.all_in_force():
        note = entry.note
        known.append(replace(note, seen=-1, unwell=min(note.unwell, end)))
        if memory.settles(note):
            known.append(Audited(note.topic, memory.audited[note.topic][0]))
    known += memory.holds.values()
    if memory.maintenance_until_ms:
        known.append(Maintenance(memory.maintenance_until_ms))
    if memory.last_seen_ms:
        known.append(LastSeen(memory.last_seen_ms))
    if memory.panic is not None:
        known.append(memory.panic)
    return known
