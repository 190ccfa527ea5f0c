"""Which leader wrote which stretch of the log, so that a follower knows where to cut its own.

A batch carries the epoch of the leader that appended it. The first offset of each epoch is all that
is needed to answer "where does epoch e end in your log?" (OffsetsForLeaderEpoch, KIP-101, KIP-279).

    epoch   0         3              4
            |---------|--------------|-------▶        end of epoch 3 = start of epoch 4
    offset  0         120            500     log end

Cleaning takes batches away, an epoch's first ones or all of them. A copy of a cleaned log goes by
what its leader has noted. Whoever has nothing but batches takes an epoch to begin where the batch
before ends, not where its first batch is that is left: a follower that wrote something else in
between has to cut it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sexton.log.checkpoints import EpochStart

NO_EPOCH = -1
NO_OFFSET = -1


@dataclass(slots=True)
class LeaderEpochs:
    """Epochs and where they start, both increasing."""

    entries: list[EpochStart] = field(default_factory=list)

    @property
    def latest(self) -> int:
        return self.entries[-1].epoch if self.entries else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Notes that `epoch` begins here; True if that is news and must be written down.

        A later entry that contradicts it comes from records that have been replaced: it goes.
        """
        if epoch < 0:
            return False
        if self.entries and epoch == self.latest and start_offset >= self.entries[-1].start_offset:
            return False
        self.entries = [
            e for e in self.entries if e.epoch < epoch and e.start_offset < start_offset
        ]
        self.entries.append(EpochStart(epoch, start_offset))
        return True

    def learn(
        self, epoch: int, reached: int, base_offset: int, noted: Sequence[EpochStart] = ()
    ) -> bool:
        """A batch of `epoch` comes after one that ended at `reached`; True if that is news.

        `noted` is what its leader knows of this and earlier epochs.
        """
        if epoch == self.latest:
            return False
        news = False
        for start in noted:
            if self.latest < start.epoch <= epoch and reached <= start.start_offset <= base_offset:
                news |= self.assign(*start)
        return news if epoch == self.latest else self.assign(epoch, reached)

    def remember(self, earlier: list[EpochStart]) -> None:
        """What was noted before counts, unless it is later than anything that batches tell of."""
        noted = [entry for entry in earlier if entry.epoch <= self.latest]
        starts = dict(self.entries) | dict(noted)
        rising: list[EpochStart] = []
        for entry in sorted(EpochStart(*each) for each in starts.items()):
            while rising and rising[-1].start_offset >= entry.start_offset:
                rising.pop()
            rising.append(entry)
        self.entries = rising

    def end_of(self, epoch: int, log_end: int) -> EpochStart:
        """The last epoch up to `epoch` in this log and where it ends; (-1, -1) if unknown."""
        if epoch == NO_EPOCH or not self.entries or epoch > self.latest:
            return EpochStart(NO_EPOCH, NO_OFFSET)
        if epoch == self.latest:
            return EpochStart(epoch, log_end)
        later = next(e for e in self.entries if e.epoch > epoch)
        earlier = [e for e in self.entries if e.epoch <= epoch]
        return EpochStart(earlier[-1].epoch if earlier else epoch, later.start_offset)

    def at(self, offset: int) -> int:
        """The epoch in which `offset` was written."""
        found = [e.epoch for e in self.entries if e.start_offset <= offset]
        return found[-1] if found else NO_EPOCH

    def cut_end(self, end: int) -> bool:
        """The log now ends here; True if anything changed."""
        kept = [e for e in self.entries if e.start_offset < end]
        changed = len(kept) != len(self.entries)
        self.entries = kept
        return changed

    def cut_start(self, start: int) -> bool:
        """The log now starts here: the epoch it starts in begins here, earlier ones are gone."""
        before = [e for e in self.entries if e.start_offset <= start]
        if not before or (len(before) == 1 and before[0].start_offset == start):
            return False
        self.entries = [EpochStart(before[-1].epoch, start), *self.entries[len(before) :]]
        return True
