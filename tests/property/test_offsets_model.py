"""Committed offsets against the simplest thing that could be right: the log, read from its start.

The model keeps the list of everything that was written and how much of it is replicated, and reads
it anew for every question. Whatever the order of commits, transactions, markers, deletions, refused
batches and moves of the leader, the machine answers as the list does.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines.offset_messages import (
    Answer,
    Append,
    Appended,
    AppendFailed,
    AppendMarker,
    Commit,
    CommittedOffset,
    Delete,
    DeleteGroup,
    DeleteGroupAnswer,
    Event,
    Fetch,
    FetchAnswer,
    GroupChanged,
    Load,
    Marker,
    MarkerAnswer,
    OffsetRecord,
    PartitionErrors,
    Tick,
    Unload,
    WakeAt,
    WriteMarker,
)
from sexton.machines.offsets import OffsetConfig, Offsets

Entry = OffsetRecord | Marker

GROUPS = ("g", "h")
PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0))
PRODUCERS = (7, 8)
RETENTION_MS = 1000


@dataclass(frozen=True)
class Batch:
    token: int
    entries: tuple[Entry, ...]


def read(entries: list[Entry]) -> dict[tuple[str, TopicPartition], CommittedOffset]:
    """Each record counts from its own place on, if its transaction is known to have committed."""
    found: dict[tuple[str, TopicPartition], CommittedOffset] = {}
    for at, entry in enumerate(entries):
        if isinstance(entry, Marker):
            continue
        key = (entry.group, entry.partition)
        if entry.value is None:
            found.pop(key, None)
        elif entry.producer_id < 0 or _committed(entries[at:], entry):
            found[key] = entry.value
    return found


def _committed(following: list[Entry], record: OffsetRecord) -> bool:
    """Whether the next marker of its producer is a commit, and no tombstone comes before that."""
    for entry in following:
        if isinstance(entry, Marker):
            if entry.producer_id == record.producer_id:
                return entry.commit
        elif entry.value is None and _key(entry) == _key(record):
            return False
    return False


def pending(entries: list[Entry]) -> set[tuple[str, TopicPartition]]:
    waiting: dict[int, set[tuple[str, TopicPartition]]] = {}
    for entry in entries:
        if isinstance(entry, Marker):
            waiting.pop(entry.producer_id, None)
        elif entry.value is None:
            for keys in waiting.values():
                keys.discard(_key(entry))
        elif entry.producer_id >= 0:
            waiting.setdefault(entry.producer_id, set()).add(_key(entry))
    return set().union(*waiting.values())


def _key(record: OffsetRecord) -> tuple[str, TopicPartition]:
    return record.group, record.partition


class OffsetsModel(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.config = OffsetConfig(offsets_retention_ms=RETENTION_MS, retry_ms=10)
        self.offsets = Offsets(self.config)
        self.now_ms = 0
        self.log: list[Entry] = []  # replicated
        self.tail: list[Batch] = []  # written, but not replicated
        self.next_offset = 0
        self.last_caller = 0
        self.callers: dict[int, Event] = {}
        self.memberships: dict[str, GroupChanged] = {}
        self.seen: dict[tuple[str, TopicPartition], int] = {}
        self.tell(Load([]))

    # ── requests ──

    def ask(self, request: Event) -> None:
        self.callers[self.last_caller] = request
        self.tell(request)

    def caller(self) -> int:
        self.last_caller += 1
        return self.last_caller

    @rule(
        group=st.sampled_from(GROUPS),
        chosen=st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=2),
        producer=st.sampled_from([-1, *PRODUCERS]),
    )
    def commit(self, group: str, chosen: list[TopicPartition], producer: int) -> None:
        """Clients only ever go forward here, so that a step back is our own."""
        offsets = []
        for partition in chosen:
            self.next_offset += 1
            offsets.append((partition, CommittedOffset(self.next_offset)))
        self.ask(Commit(self.caller(), group, tuple(offsets), producer))

    @rule(producer=st.sampled_from(PRODUCERS), commit=st.booleans())
    def marker(self, producer: int, commit: bool) -> None:
        self.ask(WriteMarker(self.caller(), producer, 0, 0, commit))

    @rule(group=st.sampled_from(GROUPS), partition=st.sampled_from(PARTITIONS))
    def delete(self, group: str, partition: TopicPartition) -> None:
        self.ask(Delete(self.caller(), group, (partition,)))

    @rule(group=st.sampled_from(GROUPS))
    def delete_group(self, group: str) -> None:
        self.ask(DeleteGroup(self.caller(), group))

    @rule(
        group=st.sampled_from(GROUPS),
        subscribed=st.sampled_from([(), ("t",), None]),
        empty=st.booleans(),
    )
    def group_changes(self, group: str, subscribed: tuple[str, ...] | None, empty: bool) -> None:
        change = GroupChanged(group, subscribed, self.now_ms if empty else -1)
        self.memberships[group] = change
        self.tell(change)

    # ── the world ──

    @precondition(lambda self: self.tail)
    @rule(count=st.integers(1, 4), only_the_last=st.booleans())
    def replicate(self, count: int, only_the_last: bool) -> None:
        """The high watermark rises; a shell may tell of each batch, or of the last alone."""
        batches, self.tail = self.tail[:count], self.tail[count:]
        if only_the_last:
            for batch in batches:
                self.log += batch.entries
            self.tell(Appended(batches[-1].token))
            return
        for batch in batches:
            self.log += batch.entries
            self.tell(Appended(batch.token))

    @precondition(lambda self: self.tail)
    @rule()
    def refuse_batch(self) -> None:
        batch = self.tail.pop()
        self.tell(AppendFailed(batch.token, KafkaError.NOT_ENOUGH_REPLICAS))

    @rule(ms=st.sampled_from([0, 10, 400, 1000]))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        self.tell(Tick())

    @rule(kept=st.integers(0, 3))
    def move(self, kept: int) -> None:
        for batch in self.tail[:kept]:
            self.log += batch.entries
        self.tail = []
        self.tell(Unload())
        assert not self.callers
        self.offsets = Offsets(self.config)
        self.tell(Load(list(self.log)))
        for change in self.memberships.values():
            self.tell(change)

    def tell(self, event: Event) -> None:
        for effect in self.offsets.handle(event, self.now_ms):
            match effect:
                case Append(token, records):
                    self.check_append(effect)
                    self.tail.append(Batch(token, records))
                case AppendMarker(token, producer_id, commit=commit):
                    self.tail.append(Batch(token, (Marker(producer_id, commit),)))
                case Answer():
                    self.hear(effect)
                case WakeAt(ms):
                    assert ms >= 0

    def check_append(self, effect: Append) -> None:
        """What expires is old, is not in use, and has nothing on its way."""
        if self.callers or any(record.value is not None for record in effect.records):
            return
        everything = self.log + [entry for batch in self.tail for entry in batch.entries]
        known = read(everything)
        for record in effect.records:
            key = _key(record)
            assert key not in pending(everything)
            assert self.now_ms - known[key].commit_ms >= RETENTION_MS
            change = self.memberships.get(record.group, GroupChanged(record.group))
            assert change.subscribed is not None
            assert record.partition.topic not in change.subscribed
            assert change.empty_since_ms < 0 or self.now_ms - change.empty_since_ms >= RETENTION_MS

    def hear(self, effect: Answer) -> None:
        """An answer promises what the replicated log says by then."""
        assert isinstance(effect.caller, int)
        request = self.callers.pop(effect.caller)
        match request, effect.answer:
            case Commit(), PartitionErrors(errors):
                if errors[0][1] is KafkaError.NONE:
                    wanted = {(request.group, partition) for partition, _ in request.offsets}
                    assert wanted <= {
                        _key(entry) for entry in self.log if isinstance(entry, OffsetRecord)
                    }
            case WriteMarker(), MarkerAnswer(KafkaError.NONE):
                assert Marker(request.producer_id, request.commit) in self.log
            case (Delete(), PartitionErrors()) | (DeleteGroup(), DeleteGroupAnswer()):
                pass
            case _:
                assert isinstance(effect.answer, PartitionErrors | MarkerAnswer | DeleteGroupAnswer)

    # ── what must be true ──

    def fetch(self, group: str, stable: bool) -> dict[TopicPartition, int | KafkaError]:
        effects = self.offsets.handle(Fetch("", group, PARTITIONS, stable), self.now_ms)
        answers = [effect.answer for effect in effects if isinstance(effect, Answer)]
        assert len(answers) == 1 and isinstance(answers[0], FetchAnswer)
        found: dict[TopicPartition, int | KafkaError] = {}
        for fetched in answers[0].offsets:
            committed = fetched.committed
            found[fetched.partition] = fetched.error or (
                committed.offset if committed is not None else -1
            )
        return found

    @invariant()
    def it_answers_as_the_log_does(self) -> None:
        known = read(self.log)
        written = [entry for batch in self.tail for entry in batch.entries]
        in_flight = {_key(e) for e in written if isinstance(e, OffsetRecord) and e.producer_id >= 0}
        unstable = pending(self.log) | in_flight
        for group in GROUPS:
            plain, stable = self.fetch(group, False), self.fetch(group, True)
            for partition in PARTITIONS:
                value = known.get((group, partition))
                wanted = value.offset if value is not None else -1
                assert plain[partition] == wanted
                if (group, partition) in unstable:
                    assert stable[partition] is KafkaError.UNSTABLE_OFFSET_COMMIT
                else:
                    assert stable[partition] == wanted

    @invariant()
    def an_offset_never_goes_back(self) -> None:
        """Each commit here is higher than all before; a tombstone starts over."""
        known = {key: value.offset for key, value in read(self.log).items()}
        buried = {_key(e) for e in self.log if isinstance(e, OffsetRecord) and e.value is None}
        for key, offset in self.seen.items():
            assert key in buried or known[key] >= offset
        self.seen = known

    @invariant()
    def it_says_so_itself(self) -> None:
        self.offsets.check()


TestOffsets = OffsetsModel.TestCase
