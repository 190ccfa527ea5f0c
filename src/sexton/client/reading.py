"""A partition read to the end, whatever happens to brokers on the way.

    [start, end) ──▶ leader 1 ··· gone ──▶ leader 2 ──▶ ... every batch once, in order

The reader remembers the offset after the last batch that it handed on. A leader that goes away, is
replaced or refuses for a while costs a pause and a look at the metadata; then it reads on from that
offset. It names the leader's epoch in every Fetch, so that a broker with other ideas of who leads
says so instead of answering. With `node` it reads that broker's copy, whoever leads, and waits for
that broker alone.

It ends in one of two ways: everything in [start, end) that the log holds was handed on, or an error
says what was not. In particular:

  - an answer without records is the end only if the broker also says that it is past `end`, and
    that it has looked (`replica`): a leader that has just been elected may not know yet what is
    committed, tiered storage may not have answered yet, and both are waited for
  - offsets that are gone (retention, DeleteRecords, an unclean election) are `OffsetsGone`, by the
    word of the newest leader that anybody names (`newest`): one that was replaced, and has not
    heard of it, lacks what was written since
  - a new leader is asked whether its log goes on where we are (KIP-320): after an unclean election
    other records may stand at the same offsets, and half of each would be `LogTruncated`. One of
    an earlier epoch is not asked: it was replaced and has not heard of it, so what it lacks is no
    sign of anything, and it is waited for until somebody names the leader that there is
  - a topic that was deleted and made again is another topic, whatever its name: its id tells. A
    Fetch goes by name, so the broker that is read is asked for the id before and after: what one
    broker knows of a topic never goes back, so all that it sent between was of that id. Any other
    broker may have old news, and so may this one before: that is waited for, like a topic which
    nobody has heard of yet
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.epochs import end_of_epoch
from sexton.client.newest import newest_topology
from sexton.client.replica import CHUNK_BYTES, Chunk, Isolation, Replica
from sexton.client.retrying import PATIENT, Patience, Trying
from sexton.client.topology import PartitionPlace, Topology, may_be_same
from sexton.protocol.wire import ZERO_UUID

NO_ID = ZERO_UUID  # of a topic in a cluster that has no topic ids


class OffsetsGone(Refused):
    """The log no longer has, or does not have yet, what was asked for."""

    def __init__(self, what: str, offset: int, log_start: int, log_end: int) -> None:
        why = f"{what}: offset {offset} is not there, the log is [{log_start}, {log_end})"
        super().__init__(KafkaError.OFFSET_OUT_OF_RANGE, why)
        self.offset = offset
        self.log_start = log_start
        self.log_end = log_end


class TopicReplaced(Refused):
    def __init__(self, topic: str) -> None:
        why = f"the topic {topic} was deleted and made again while it was read"
        super().__init__(KafkaError.INCONSISTENT_TOPIC_ID, why)


class LogTruncated(Refused):
    """A new leader does not have what was read from the last one."""

    def __init__(self, what: str, offset: int, end: int) -> None:
        why = f"{what} was read to offset {offset}, but its new leader's log parts from it at {end}"
        hint = "there was an unclean election; read it again from the start"
        super().__init__(KafkaError.FENCED_LEADER_EPOCH, why, hint)


@dataclass(frozen=True, slots=True)
class PartitionReader:
    """`topic_id` is that of the topic which is meant, if it is known."""

    client: Client
    partition: TopicPartition
    node: int | None = None  # None: whoever leads
    topic_id: bytes = NO_ID
    patience: Patience = PATIENT

    async def read(
        self,
        start: int,
        end: int,
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> AsyncGenerator[Chunk, None]:
        """Every batch with records in [start, end); the first and last may reach beyond it."""
        offset, trying = start, Trying(self.patience)
        replica: Replica | None = None
        last: tuple[Replica, Chunk] | None = None  # what was handed on, and whose it was
        doubts = False  # somebody may not lead any more, though it says so
        while offset < end:
            try:
                replica = await self._replica(doubts)
                if last is not None and last[0].leader_epoch != replica.leader_epoch:
                    _check_epoch(replica, last[0])
                    await self._goes_on(replica, last[1], offset)
                chunks = replica.read(offset, end=end, isolation=isolation, chunk_bytes=chunk_bytes)
                async with aclosing(chunks):
                    async for chunk in chunks:
                        if chunk.data and chunk.next_offset > offset:
                            offset, last = chunk.next_offset, (replica, chunk)
                            trying.works()
                            yield chunk
                        elif chunk.data:
                            raise PeerError(str(replica), f"sends nothing from {offset} on again")
                        elif chunk.next_offset >= end:
                            offset = end  # the rest was compacted away, see `replica`
                        else:
                            raise _behind(replica, chunk, isolation, end)
            except (PeerError, Refused) as error:
                await self._recover(error, offset, trying)
                doubts = True
        await self._same_topic(replica)

    async def log_end(self) -> int:
        """Of whoever would be read now, committed or not."""
        replica = await self._replica(doubts=True)
        return (await replica.offsets()).log_end

    async def _recover(self, error: PeerError | Refused, offset: int, trying: Trying) -> None:
        """Waits until it may work again; raises what will not."""
        if isinstance(error, OffsetsGone | LogTruncated):
            raise error
        if isinstance(error, Refused) and error.error is KafkaError.OFFSET_OUT_OF_RANGE:
            error = await self._not_there(error, offset)
        await trying.pause(error)
        self.client.look_elsewhere()

    async def _not_there(self, error: Refused, offset: int) -> PeerError | Refused:
        """What to wait for; raises if nobody has it: a leader that was replaced may not know."""
        try:
            replica = await self._replica(doubts=True)
            found = await replica.offsets()
        except (PeerError, Refused) as other:
            return other
        if not found.log_start <= offset <= found.log_end:
            raise OffsetsGone(str(replica), offset, found.log_start, found.log_end)
        return Refused(KafkaError.OFFSET_NOT_AVAILABLE, error.why)

    async def _replica(self, doubts: bool) -> Replica:
        place = await self._place(doubts)
        if self.node is None and place.leader < 0:
            why = f"nobody leads {self.partition}"
            raise Refused(KafkaError.LEADER_NOT_AVAILABLE, why)
        node, epoch = (place.leader, place.leader_epoch) if self.node is None else (self.node, -1)
        if self.topic_id != NO_ID:
            self._check_id(await self.client.topology_by(node, [self.partition.topic]))
        return self.client.replica(self.partition, node, leader_epoch=epoch)

    async def _place(self, doubts: bool) -> PartitionPlace:
        if self.node is None and doubts:
            topology = await newest_topology(self.client, [self.partition.topic])
            return topology.place(self.partition)
        return await self.client.place(self.partition)

    async def _goes_on(self, leader: Replica, last: Chunk, offset: int) -> None:
        """Does the new leader have the last batch that was read? Its epoch tells."""
        *_, newest = last.batches()
        epoch = newest.header.partition_leader_epoch
        if epoch < 0:
            return  # written before there were epochs
        connection = await leader.connected()
        told = await end_of_epoch(connection, self.partition, leader.leader_epoch, epoch)
        if told.leader_epoch < epoch or told.end_offset < offset:
            raise LogTruncated(str(self.partition), offset, told.end_offset)

    async def _same_topic(self, read: Replica | None) -> None:
        """Looks once more at the end; if the broker that was read is gone, at what others say."""
        topics, trying = [self.partition.topic], Trying(self.patience)
        try:
            if read is not None:
                return self._check_id(await self.client.topology_by(read.node, topics))
        except TopicReplaced:
            raise
        except (PeerError, Refused) as error:
            await trying.pause(error)
        while True:
            try:
                return self._check_id(await self.client.topology(topics))
            except (PeerError, Refused) as error:
                await trying.pause(error)
                self.client.look_elsewhere()

    def _check_id(self, found: Topology) -> None:
        if not may_be_same(self.topic_id, found.topic(self.partition.topic).topic_id):
            raise TopicReplaced(self.partition.topic)


def _check_epoch(leader: Replica, before: Replica) -> None:
    """Epochs never go back: a leader of an earlier one has been replaced."""
    if 0 <= leader.leader_epoch < before.leader_epoch:
        why = f"{leader} leads in epoch {leader.leader_epoch}, or believes so"
        hint = f"it was read in epoch {before.leader_epoch}; a topic made again begins anew"
        raise Refused(KafkaError.FENCED_LEADER_EPOCH, why, hint)


def _behind(replica: Replica, chunk: Chunk, isolation: Isolation, end: int) -> Refused:
    bound = "last stable offset" if isolation is Isolation.READ_COMMITTED else "high watermark"
    why = f"{replica} cannot be read to {end}: its {bound} is {chunk.readable_to(isolation)}"
    return Refused(KafkaError.OFFSET_NOT_AVAILABLE, why)
