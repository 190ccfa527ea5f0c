"""What becomes of committed offsets, told as text: see testdata/offsets_*.txt.

Records are replicated at once, unless a story holds them back. `orders-0=5` is an offset of the
partition orders-0, `@7` a producer in a transaction, `-orders-0` a tombstone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.log.config import LogConfig
from sexton.machines.offset_log import to_bytes
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
    LoadStarted,
    Marker,
    MarkerAnswer,
    OffsetRecord,
    PartitionErrors,
    Tick,
    TopicsDeleted,
    TopicsExist,
    Unload,
    WakeAt,
    WriteMarker,
)
from sexton.machines.offsets import MOST_TOMBSTONES, OffsetConfig, Offsets
from sexton.records.few import few_batch
from tests.datadriven import Case, datadriven, run_file
from tests.unit.machines.test_transactions import milliseconds


class Story:
    def __init__(self) -> None:
        self.offsets = Offsets()
        self.log: list[OffsetRecord | Marker] = []  # what is replicated
        self.now_ms = 0
        self.wake_ms: int | None = None
        self.holding = False
        self.held: list[Append | AppendMarker] = []
        self.stale: list[Append | AppendMarker] = []
        self.said: list[str] = []

    def run(self, case: Case) -> str:
        self.said = []
        getattr(self, "do_" + case.command.replace("-", "_"))(case)
        self.offsets.check()
        return "\n".join(self.said or ["ok"])

    # ── what a story can say ──

    def do_offsets(self, case: Case) -> None:
        retention_ms = milliseconds(case.option("retention", "7d"))
        self.offsets = Offsets(OffsetConfig(offsets_retention_ms=retention_ms))
        self.log = [_entry(line) for line in case.lines]
        self._tell(Load(list(self.log)))

    def do_commit(self, case: Case) -> None:
        producer_id, epoch = -1, -1
        if case.words[1:]:
            producer_id, epoch = map(int, case.words[1].removeprefix("@").split("/"))
        text, _, times = case.option("metadata", "").partition("*")
        metadata = text * int(times or 1)
        topic_id = case.option("topic-id", "\0").encode().ljust(16, b"\0")
        offsets = tuple(
            (
                TopicPartition.from_directory(name),
                CommittedOffset(int(value), metadata, topic_id=topic_id),
            )
            for name, value in case.options.items()
            if value.isdigit() and name != "keep"
        )
        self._tell(
            Commit(
                _who(case),
                case.words[0],
                offsets,
                producer_id,
                epoch,
                case.number("keep", -1),
                _refused(case),
            )
        )

    def do_marker(self, case: Case) -> None:
        outcome, producer = case.words
        producer_id, epoch = map(int, producer.removeprefix("@").split("/"))
        coordinator_epoch = case.number("coordinator", 0)
        commit = outcome == "COMMIT"
        self._tell(WriteMarker("coordinator", producer_id, epoch, coordinator_epoch, commit))

    def do_fetch(self, case: Case) -> None:
        words = [word for word in case.words[1:] if word != "stable"]
        partitions = tuple(map(TopicPartition.from_directory, words)) or None
        stable = "stable" in case.words
        self._tell(Fetch(_who(case), case.words[0], partitions, stable, _refused(case)))

    def do_delete(self, case: Case) -> None:
        partitions = tuple(map(TopicPartition.from_directory, case.words[1:]))
        self._tell(Delete(_who(case), case.words[0], partitions, _refused(case)))

    def do_delete_group(self, case: Case) -> None:
        self._tell(DeleteGroup(_who(case), case.words[0], _refused(case)))

    def do_delete_topic(self, case: Case) -> None:
        topic_id = case.option("topic-id", "\0").encode().ljust(16, b"\0")
        self._tell(TopicsDeleted(((case.words[0], topic_id),)))

    def do_topics(self, case: Case) -> None:
        """Those there are: `orders=A`."""
        self._tell(TopicsExist({n: i.encode().ljust(16, b"\0") for n, i in case.options.items()}))

    def do_group(self, case: Case) -> None:
        """`subscribed=all` stands for a group that may subscribe to anything."""
        topics = case.option("subscribed", "")
        subscribed = None if topics == "all" else tuple(filter(None, topics.split(",")))
        self._tell(GroupChanged(case.words[0], subscribed, case.number("empty-since", -1)))

    def do_hold(self, _case: Case) -> None:
        self.holding = True

    def do_release(self, case: Case) -> None:
        """Lets go what was held, or fails it; with `only=`, the first so many."""
        error = KafkaError[case.option("fail")] if "fail" in case.options else None
        count = case.number("only", len(self.held))
        let_go, self.held = self.held[:count], self.held[count:]
        self.holding = bool(self.held)
        for effect in let_go:
            self._let_go(effect, error)

    def do_replicate_all_at_once(self, _case: Case) -> None:
        """The high watermark passes everything in one leap: only the last one is told."""
        let_go, self.held, self.holding = self.held, [], False
        for effect in let_go:
            self.log += _entries(effect)
        self._tell(Appended(let_go[-1].token))

    def do_pass(self, case: Case) -> None:
        until_ms = self.now_ms + milliseconds(case.words[0])
        while self.wake_ms is not None and self.wake_ms <= until_ms:
            self.now_ms, self.wake_ms = max(self.now_ms, self.wake_ms), None
            self._tell(Tick())
        self.now_ms = until_ms

    def do_load(self, _case: Case) -> None:
        self._tell(LoadStarted())

    def do_move(self, _case: Case) -> None:
        self._tell(Unload())
        self.offsets = Offsets(self.offsets.config)
        self.wake_ms, self.held, self.holding = None, [], False
        self._tell(Load(list(self.log)))

    def do_again(self, _case: Case) -> None:
        """The same broker leads again, and what it had under way is still on its way."""
        self._tell(Unload())
        self.stale += self.held
        self.wake_ms, self.held = None, []
        self._tell(Load(list(self.log)))

    def do_late_news(self, _case: Case) -> None:
        """A batch of the term before was replicated after all; too late for anybody."""
        stale, self.stale = self.stale, []
        for effect in stale:
            self._tell(Appended(effect.token))

    def do_resign(self, _case: Case) -> None:
        self.wake_ms = None
        self._tell(Unload())

    # ── how it is carried out ──

    def _tell(self, event: Event) -> None:
        for effect in self.offsets.handle(event, self.now_ms):
            match effect:
                case WakeAt(ms):
                    self.wake_ms = ms
                case Answer(caller, _):
                    self.said.append(f"{caller}: {_say_answer(effect)}")
                case Append() | AppendMarker():
                    self.said.append(f"append {_say(effect)}")
                    if self.holding:
                        self.held.append(effect)
                    else:
                        self._let_go(effect, None)

    def _let_go(self, effect: Append | AppendMarker, error: KafkaError | None) -> None:
        if error is None:
            self.log += _entries(effect)
            self._tell(Appended(effect.token))
        else:
            self._tell(AppendFailed(effect.token, error))


def _who(case: Case) -> str:
    return case.option("who", "client")


def _refused(case: Case) -> KafkaError:
    return KafkaError[case.option("refused", "NONE")]


def _entries(effect: Append | AppendMarker) -> list[OffsetRecord | Marker]:
    if isinstance(effect, AppendMarker):
        return [Marker(effect.producer_id, effect.commit)]
    return list(effect.records)


def _entry(line: str) -> OffsetRecord | Marker:
    """`readers orders-0=5`, the same with `@7`, `readers -orders-0`, or `COMMIT @7`."""
    words = line.split()
    if words[0] in ("COMMIT", "ABORT"):
        return Marker(int(words[1].removeprefix("@")), words[0] == "COMMIT")
    producer_id = int(words[2].removeprefix("@")) if len(words) > 2 else -1
    if words[1].startswith("-"):
        return OffsetRecord(words[0], TopicPartition.from_directory(words[1][1:]), None)
    name, offset = words[1].split("=")
    value = CommittedOffset(int(offset))
    return OffsetRecord(words[0], TopicPartition.from_directory(name), value, producer_id)


def _say(effect: Append | AppendMarker) -> str:
    if isinstance(effect, AppendMarker):
        outcome = "COMMIT" if effect.commit else "ABORT"
        who = f"@{effect.producer_id}/{effect.producer_epoch}"
        return f"{outcome} {who} coordinator epoch {effect.coordinator_epoch}"
    words = [effect.records[0].group]
    for record in effect.records:
        assert record.group == words[0] and record.producer_id == effect.producer_id
        offset = record.value
        words.append(f"{record.partition}={offset.offset}" if offset else f"-{record.partition}")
    if effect.producer_id >= 0:
        words.append(f"@{effect.producer_id}/{effect.producer_epoch}")
    return " ".join(words)


def _say_answer(effect: Answer) -> str:
    match effect.answer:
        case PartitionErrors(errors):
            return ", ".join(f"{partition} {error.name}" for partition, error in errors)
        case FetchAnswer(error, offsets):
            if error:
                return error.name
            said = []
            for fetched in offsets:
                committed = fetched.committed
                offset = f"={committed.offset}" if committed else " none"
                said.append(
                    f"{fetched.partition}{offset}"
                    if not fetched.error
                    else f"{fetched.partition} {fetched.error.name}"
                )
            return ", ".join(said) or "nothing"
        case MarkerAnswer(error) | DeleteGroupAnswer(error):
            return error.name


@datadriven(__file__, "testdata/offsets_*.txt")
def test_offsets(path: Path) -> None:
    run_file(path, Story().run)


GROUP, TOPIC = "g" * 255, "t" * 249  # as long as names are
MANY = 3 * MOST_TOMBSTONES + 1


def with_many_offsets() -> Offsets:
    partitions = [TopicPartition(TOPIC, number) for number in range(MANY)]
    offsets = Offsets()
    offsets.handle(Load([OffsetRecord(GROUP, each, CommittedOffset(5)) for each in partitions]), 0)
    return offsets


def appends(offsets: Offsets, event: Event) -> list[Append]:
    effects = offsets.handle(event, 0)
    assert not [effect for effect in effects if isinstance(effect, Answer)]
    return [effect for effect in effects if isinstance(effect, Append)]


def answers(offsets: Offsets, *events: Event) -> list[object]:
    effects = [effect for event in events for effect in offsets.handle(event, 0)]
    offsets.check()
    return [effect.answer for effect in effects if isinstance(effect, Answer)]


@pytest.mark.parametrize(
    "event", [TopicsDeleted(((TOPIC, bytes(16)),)), DeleteGroup("client", GROUP)]
)
def test_however_many_offsets_go_their_tombstones_fit_into_the_log(event: Event) -> None:
    offsets = with_many_offsets()
    batches = appends(offsets, event)
    assert sum(len(batch.records) for batch in batches) == MANY
    for batch in batches:
        size = len(few_batch([to_bytes(record) for record in batch.records], 0))
        assert size < LogConfig().max_message_bytes
        offsets.handle(Appended(batch.token), 0)
    assert not offsets.groups()


def test_a_group_is_deleted_when_the_last_of_its_tombstones_is_replicated() -> None:
    offsets = with_many_offsets()
    *first, last = appends(offsets, DeleteGroup("client", GROUP))
    assert not answers(offsets, *(Appended(batch.token) for batch in first))
    assert answers(offsets, Appended(last.token)) == [DeleteGroupAnswer(KafkaError.NONE)]


@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_group_is_not_deleted_if_some_of_its_tombstones_were_not_written(which: int) -> None:
    offsets = with_many_offsets()
    batches = appends(offsets, DeleteGroup("client", GROUP))
    failed = batches.pop(which)
    refused = answers(offsets, AppendFailed(failed.token, KafkaError.NOT_ENOUGH_REPLICAS))
    assert refused == [DeleteGroupAnswer(KafkaError.COORDINATOR_NOT_AVAILABLE)]
    assert not answers(offsets, *(Appended(batch.token) for batch in batches)), "it has been told"
    left = answers(offsets, Fetch("client", GROUP, None))[0]
    assert isinstance(left, FetchAnswer) and len(left.offsets) == len(failed.records)


def test_who_waits_for_many_tombstones_hears_once_that_the_coordinator_has_moved() -> None:
    offsets = with_many_offsets()
    appends(offsets, DeleteGroup("client", GROUP))
    assert answers(offsets, Unload()) == [DeleteGroupAnswer(KafkaError.NOT_COORDINATOR)]
