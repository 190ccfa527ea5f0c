"""Is a marker that arrives now about the transaction that is open now?

A coordinator repeats a marker that is not answered in time, and the first copy may still be under
way. If it arrives when the producer has begun its next transaction, it ends that one, and perhaps
the wrong way:

    coordinator ── abort 1 ─────────(under way for long)───────────────────────┐
                ── abort 1 ──▶ leader     written, answered, complete          │
    producer    ── data of 2 ──▶ leader                                        ▼
                                 leader ◀── abort 1       data of 2 is aborted, and then committed

Neither epoch in a marker tells them apart: all of a TV1 producer's transactions have one epoch, a
TV2 marker has that of the transaction after its own, and the coordinator is the same. So our own
coordinators say more with a marker, a `Stamp`, and a leader asks two questions about it.

    Was it sent to this term?  Else it is refused; the coordinator learns who leads, and repeats it.
    Is its number new?         A coordinator numbers what it ends. A leader keeps the last number of
                               each producer; what is not above it is here already.

Why that is enough: a coordinator hears of the last copy it sent only, so a transaction is complete
when that one was written. Every other copy was sent to the same term, whose leader knows the
number; or to an earlier one, and is refused. A leader that starts anew knows no numbers, but no
term outlives its process; nor does a coordinator's, so numbers never start again within one
coordinator epoch. What an earlier coordinator sent is fenced by its epoch in the log as soon as a
later one has written anything for the producer; until then it is that coordinator's number which
is the last.

A marker without a stamp (from `kafka-transactions abort`, or another coordinator) is written as it
always was.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import field

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass

REMEMBERED_MS = 24 * 3600_000  # nothing is under way for so long; Kafka forgets producers after it


@dataclass(frozen=True, slots=True)
class Stamp:
    leader_epoch: int  # in which the coordinator believes this leader to be
    coordinator_epoch: int
    number: int  # of the transaction, among all that this coordinator has ended in its term


@dataclass(frozen=True, slots=True)
class _Last:
    stamp: Stamp
    clock_ms: int


@dataclass(slots=True)
class Markers:
    """What a leader remembers of the markers that it wrote in its term."""

    leader_epoch: int
    _last: OrderedDict[int, _Last] = field(default_factory=OrderedDict)  # by producer id

    def is_late(self, producer_id: int, stamp: Stamp) -> bool:
        """Is this marker, or one after it, here already? Refused if it is for another term."""
        if stamp.leader_epoch != self.leader_epoch:
            older = stamp.leader_epoch < self.leader_epoch
            raise Refused(
                KafkaError.FENCED_LEADER_EPOCH if older else KafkaError.UNKNOWN_LEADER_EPOCH,
                f"the marker was sent to leader epoch {stamp.leader_epoch}, "
                f"this is {self.leader_epoch}",
            )
        last = self._last.get(producer_id)
        return (
            last is not None
            and last.stamp.coordinator_epoch == stamp.coordinator_epoch
            and last.stamp.number >= stamp.number
        )

    def wrote(self, producer_id: int, stamp: Stamp, clock_ms: int) -> None:
        """This marker is in the log."""
        self._last[producer_id] = _Last(stamp, clock_ms)
        self._last.move_to_end(producer_id)
        while next(iter(self._last.values())).clock_ms <= clock_ms - REMEMBERED_MS:
            self._last.popitem(last=False)

    def check(self) -> None:
        times = [last.clock_ms for last in self._last.values()]
        assert times == sorted(times)
        assert all(last.stamp.leader_epoch == self.leader_epoch for last in self._last.values())
