"""A new owner asks in the right order, reaps what is stale, and obeys operators."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from sexton.base.errors import ConfigError, CorruptLog, PeerError
from sexton.machines.retry_columns import Rows
from sexton.machines.retry_records import COMMAND, MAIN_ID, STARTED, Command, command_record
from sexton.machines.retry_startup import (
    Committed,
    Ends,
    FetchCommitted,
    Initialised,
    InitProducer,
    KeysRead,
    LocksRead,
    MarkEnds,
    ReadKeys,
    ReadTo,
    RetriesRead,
    Started,
    StartUp,
)
from sexton.machines.retry_task import Row, Task
from sexton.records.columns import Spans
from tests.unit.machines.test_retry_task import (
    DONE,
    NAME,
    RETRY,
    ids,
    lock,
    retry,
    run,
    settings,
    start,
)


def codes(task: Task) -> list[tuple[str, int | None]]:
    return [(report.code, report.id) for report in task.take_reports()]


# ── the order of questions ──


def test_it_asks_for_offsets_then_ends_then_reads() -> None:
    startup = StartUp(NAME, settings(), Random(0), 1)
    assert startup.begin() == [FetchCommitted(require_stable=True)]
    assert startup.handle(Committed(0, None)) == [MarkEnds()]
    assert startup.handle(Ends(3, 5)) == [ReadTo(3, 5)]
    assert startup.handle(LocksRead([], 3)) == []
    assert startup.handle(RetriesRead([], 4)) == [], "the barrier is at 5"
    (started,) = startup.handle(RetriesRead([], 5))
    assert isinstance(started, Started)


def test_an_id_per_task_is_initialised_first() -> None:
    startup = StartUp(NAME, settings(ids_per_task=True), Random(0), 1)
    assert startup.begin() == [InitProducer()]
    assert startup.handle(Initialised()) == [FetchCommitted()]


def test_ends_that_were_marked_too_early_are_not_taken() -> None:
    with pytest.raises(AssertionError, match="after the offsets are known"):
        StartUp(NAME, settings(), Random(0), 1).handle(Ends(3, 5))


def test_a_group_that_never_committed_commits_before_it_runs() -> None:
    startup = StartUp(NAME, settings(), Random(0), 6)
    for event in (Committed(4, None), Ends(0, 0), LocksRead([], 0)):
        startup.handle(event)
    (started,) = startup.handle(RetriesRead([], 0))
    assert isinstance(started, Started)
    commit = started.task.reap()
    assert commit is not None and not commit.changes
    assert commit.metadata == "sexton.retry 1 W=4 of=6"


def test_where_owners_have_started_is_of_no_message_and_of_nobody_else() -> None:
    marked: list[Row] = [(0, STARTED, None)]
    task = start(marked, marked)
    assert task.reap() is None and codes(task) == []


# ── topics that were lost ──

W_IS_17 = "sexton.retry 1 W=17 of=1"


def without_w(*left: Row) -> StartUp:
    """Message 17 waits, as the group has committed, and 30 is all that the retry topic has."""
    startup = StartUp(NAME, settings(), Random(0), 1)
    for event in (Committed(50, W_IS_17), Ends(9, 9), LocksRead(left, 9)):
        startup.handle(event)
    assert startup.handle(RetriesRead([retry(30)], 9)) == [FetchCommitted()], "is it still so?"
    return startup


@pytest.mark.parametrize("left", [(), (lock(17),)])
def test_a_message_that_must_wait_and_is_gone_is_not_passed_over(left: tuple[Row, ...]) -> None:
    """W below the position is itself a message that waits: it was committed together with it."""
    with pytest.raises(ConfigError, match=r"m-0-17: waits.*has no record of it") as raised:
        without_w(*left).handle(Committed(50, W_IS_17))
    hint = raised.value.hint or ""
    assert "to 17" in hint and "to 50" in hint


def test_who_was_overtaken_in_its_start_does_not_call_it_lost() -> None:
    """Another owner has handled it since the offset was asked for."""
    with pytest.raises(PeerError, match="another owner"):
        without_w().handle(Committed(50, "sexton.retry 1 W=30 of=1"))


def test_a_message_that_must_wait_is_there_without_its_lock() -> None:
    assert codes(start([], [retry(17)], position=50, w=17)) == [("orphan", 17)]


def test_an_offset_that_somebody_has_set_says_nothing_of_what_waits() -> None:
    startup = StartUp(NAME, settings(), Random(0), 1)
    for event in (Committed(50, ""), Ends(0, 0), LocksRead([], 0)):
        startup.handle(event)
    (started,) = startup.handle(RetriesRead([], 0))
    assert isinstance(started, Started)


def test_without_transactions_what_waits_may_be_handled_and_the_offset_not_tell() -> None:
    """The last step of a round is its offset, and a crash may come before it."""
    assert start([], [], position=50, w=17, mode="compensating").position == 50


def test_who_only_looks_may_come_between_an_offset_and_the_next() -> None:
    startup = StartUp(NAME, settings(), Random(0), 1, to_run=False)
    for event in (Committed(50, W_IS_17), Ends(0, 0), LocksRead([], 0)):
        startup.handle(event)
    (started,) = startup.handle(RetriesRead([], 0))
    assert isinstance(started, Started)


# ── the reaper ──


def test_a_lock_below_w_is_stale() -> None:
    """A lost tombstone has brought both back on a stock broker: W knows better."""
    task = start([lock(3), lock(7, "b")], [retry(3), retry(7)], position=9, w=7)
    commit = task.reap()
    assert commit is not None
    assert ids(commit.lock_tombstones) == ids(commit.retry_tombstones) == [3]
    assert commit.watermark.w == 7
    assert codes(task) == [("stale-lock", 3)]


def test_a_lock_without_a_retry_record_is_stale() -> None:
    task = start([lock(8), lock(7, "b")], [retry(7)], position=9, w=7)
    commit = task.reap()
    assert commit is not None
    assert ids(commit.lock_tombstones) == [8] and not commit.retry_tombstones


def test_a_retry_record_without_a_lock_is_reported_and_left_alone() -> None:
    task = start([], [retry(3), retry(7)], position=9, w=7)
    commit = task.reap()
    assert commit is not None
    assert ids(commit.retry_tombstones) == [3], "below W it is known to be settled"
    task.confirmed()
    assert codes(task) == [("orphan", 7)]
    assert run(task)[0] == []


def test_what_is_left_alone_is_still_there_at_the_next_start() -> None:
    task = start([], [retry(7)], position=9, w=7)
    ran, commit = run(task, "ab")
    assert (ran, commit.position) == ([9, 10], 11)
    assert commit.watermark.w == 7, "below W it would be taken for settled"
    task = start([], [retry(7)], position=commit.position, w=commit.watermark.w)
    assert task.reap() is None and task.orders.orphans == {7: 7}


def test_without_transactions_it_is_pending() -> None:
    startup = StartUp(NAME, settings(mode="compensating"), Random(0), 1)
    for event in (Committed(9, "sexton.retry 1 W=5 of=1"), Ends(9, 9), LocksRead([], 9)):
        startup.handle(event)
    assert startup.handle(RetriesRead([retry(7)], 9)) == [ReadKeys({7: 7})]
    (started,) = startup.handle(KeysRead({7: b"a"}))
    assert isinstance(started, Started)
    assert run(started.task, "a")[0] == [7]


def test_nothing_stale_is_nothing_to_reap() -> None:
    assert start([lock(3)], [retry(3)], position=9).reap() is None


def test_a_lock_that_is_not_understood_stops_the_start() -> None:
    with pytest.raises(CorruptLog):
        start([(0, NAME.id_of(3), b"99 problems")], [retry(3)], position=9)


def test_columns_fold_as_rows_do() -> None:
    rows = [lock(1), lock(2), lock(1, attempts=3), (5, NAME.id_of(2), None), lock(4, "b")]
    retries: list[Any] = [retry(1), retry(2), retry(4), (7, COMMAND + b"x", b"{}"), (8, None, b"")]
    retries.append((9, NAME.id_of(2), None))
    plain = start(rows, retries, position=9)
    columns = start(_columns(rows), _columns(retries), position=9)
    assert columns.pending.held == plain.pending.held
    assert list(plain.pending.held) == [1, 4] and plain.pending.held[1].attempts == 3
    assert columns.orders.waiting == plain.orders.waiting == {COMMAND + b"x": b"{}"}
    assert codes(columns) == codes(plain) == [("foreign-records", None)]


def _columns(rows: list[Any]) -> Any:
    offsets, keys, values = zip(*rows, strict=True)
    return Rows(np.array(offsets), Spans.from_list(keys), Spans.from_list(values))


# ── main is read again ──


def test_what_waits_already_is_not_taken_twice() -> None:
    task = start([lock(1)], [retry(1)], position=0, mode="compensating")
    ran, commit = run(task, "ba")
    assert ran == [0] and not commit.redirected
    assert run(task)[0] == [1]


def test_what_waits_does_not_run_before_main_has_come_past_it() -> None:
    task = start([lock(1)], [retry(1)], position=0, mode="compensating")
    assert run(task)[0] == []
    ran, commit = run(task, "aa")
    assert ran == [] and [item.id for item in commit.redirected] == [0]
    assert run(task)[0] == [0, 1]


def test_offsets_that_were_set_back_are_reported() -> None:
    task = start([lock(5)], [retry(5)], position=2)
    assert codes(task) == [("lock-ahead", 5)]


def test_a_topic_that_was_created_anew_is_refused() -> None:
    task = start([lock(0, "a")], [retry(0)], position=0)
    with pytest.raises(ConfigError, match="another key"):
        task.begin(0, range(1), [b"other"])


def test_what_is_given_up_is_settled_before_main_is_read_again() -> None:
    """Another message may be in its place by now, after an unclean election say."""
    task = start([lock(1)], [retry(1)], position=0)
    ask(task, "skip", 1)
    reads_main = [task.reads_main]
    run(task)
    reads_main.append(task.reads_main)
    assert reads_main == [False, True]
    assert run(task, "aa")[0] == [0, 1]


def test_a_pause_does_not_keep_main_from_being_read_again() -> None:
    assert not start([lock(1)], [retry(1)], position=0, max_pending=1).paused
    assert start([lock(1)], [retry(1)], position=2, max_pending=1).paused


# ── operators ──


def ask(task: Task, do: Any, message: int = -1, key: bytes | None = None) -> bytes:
    told = command_record(NAME, Command(do, message, key), f"{do}-{message}")
    task.tail([(50, *told)])
    return told[0]


def test_redrive_tries_a_held_message_again_in_its_place() -> None:
    task = start([lock(0, dead=True), lock(1)], [retry(0), retry(1)], position=2)
    assert run(task)[0] == []
    command = ask(task, "redrive", 0)
    assert task.wake_at_ms(7) == 7
    _, commit = run(task)
    assert commit.retry_tombstones == [command], "it is deleted where it is carried out"
    assert not commit.in_vain
    assert run(task)[0] == [0, 1]


def test_discard_settles_and_writes_nothing_more() -> None:
    task = start([lock(0, dead=True), lock(1)], [retry(0), retry(1)], position=2)
    ask(task, "discard", 0)
    _, commit = run(task)
    assert ids(commit.lock_tombstones) == [0] and not commit.dead
    assert run(task)[0] == [1]


def test_skip_leaves_a_dead_letter() -> None:
    task = start([lock(0), lock(1)], [retry(0), retry(1)], position=2)
    ask(task, "skip", 0)
    ran, commit = run(task)
    assert ran == [], "its key does not run in the same round"
    assert [item.id for item in commit.dead] == [0]
    assert commit.dead[0].failure is not None and "operator" in commit.dead[0].failure.reason
    assert run(task)[0] == [1]


def test_a_round_skips_no_more_than_it_would_retry() -> None:
    """Their payloads are read for it, and a key may have a hundred thousand of them."""
    task = start([lock(n) for n in range(5)], [retry(n) for n in range(5)], position=5,
                 round_limit=2)  # fmt: skip
    for message in range(5):
        ask(task, "skip", message)
    letters = []
    for _ in range(3):
        assert task.wake_at_ms(7) == 7
        ran, commit = run(task)
        assert ran == [], "its key waits until all are gone"
        letters.append([item.id for item in commit.dead])
    assert letters == [[0, 1], [2, 3], [4]]
    assert task.wake_at_ms(7) is None


def test_skip_writes_the_letter_of_a_held_message_again() -> None:
    """The first may have been deleted by now: what waits would be the last copy."""
    task = start([lock(0, dead=True), lock(1)], [retry(0), retry(1)], position=2)
    ask(task, "skip", 0)
    taken = task.begin(0, (), ())
    assert [(item.id, item.retry_offset) for item in taken.retries] == [(0, 0)], "it is read"
    commit = task.finish(taken, 0)
    task.confirmed()
    assert [item.id for item in commit.dead] == [0]
    assert ids(commit.lock_tombstones) == [0]
    assert run(task)[0] == [1]


def test_a_second_command_about_a_message_waits() -> None:
    task = start([lock(0, dead=True)], [retry(0)], position=1)
    ask(task, "redrive", 0)
    ask(task, "discard", 0)
    run(task)
    assert not task.pending.held[0].dead
    run(task)
    assert len(task.pending) == 0
    assert [code for code, _ in codes(task)] == ["redrive", "discard"]


def test_a_command_about_nothing_is_said_and_deleted() -> None:
    task = start(position=2)
    command = ask(task, "redrive", 0)
    _, commit = run(task)
    assert commit.retry_tombstones == [command] == list(commit.in_vain)
    assert codes(task) == [("command-about-nothing", 0)]


def test_what_is_no_command_is_said_and_deleted() -> None:
    task = start(position=2)
    task.tail([(50, COMMAND + b"x", b"?")])
    _, commit = run(task)
    assert commit.retry_tombstones == [COMMAND + b"x"] == list(commit.in_vain)
    assert codes(task) == [("command-not-understood", None)]


@pytest.mark.parametrize("do", ["redrive", "discard", "skip"])
def test_an_orphan_is_ended_by_an_operator(do: str) -> None:
    task = start([], [retry(0)], position=2)
    ask(task, do, 0, b"a")
    ran, _ = run(task, "a")
    assert ran == [], "the next message of its key waits for what becomes of it"
    assert run(task)[0] == ([0, 2] if do == "redrive" else [2])
    assert not task.orders.orphans


def test_an_adopted_message_that_fails_waits_from_then_on() -> None:
    """Or it would never be the oldest, however long it fails."""
    startup = StartUp(NAME, settings(mode="compensating"), Random(0), 1)
    for event in (Committed(2, "sexton.retry 1 W=0 of=1"), Ends(9, 9), LocksRead([], 9)):
        startup.handle(event)
    startup.handle(RetriesRead([retry(0)], 9))
    (started,) = startup.handle(KeysRead({0: b"a"}))
    assert isinstance(started, Started)
    task = started.task
    assert task.pending.oldest_since_ms() is None, "nobody knows"
    run(task, outcomes={0: RETRY}, now_ms=1_000)
    assert task.pending.oldest_since_ms() == 1_000
    run(task, outcomes={0: RETRY}, now_ms=2_000)
    assert task.pending.oldest_since_ms() == 1_000


def test_reap_starts_up_again_after_its_command_is_gone() -> None:
    task = start(position=2)
    ask(task, "reap")
    taken = task.begin(0, (), ())
    commit = task.finish(taken, 0)
    assert commit.retry_tombstones and task.restart is None
    task.confirmed()
    assert task.restart is not None


def test_a_command_that_was_there_before_the_start_is_obeyed() -> None:
    told = command_record(NAME, Command("discard", 0), "x")
    task = start([lock(0)], [retry(0), (5, *told)], position=1)
    run(task)
    assert len(task.pending) == 0


def test_a_retry_record_that_somebody_else_deleted_starts_it_up_again() -> None:
    task = start([lock(0)], [retry(0)], position=1)
    task.tail([(60, NAME.id_of(0), None)])
    assert task.restart is not None
    assert codes(task) == [("foreign-tombstone", 0)]


def test_a_storm_is_a_few_dozen_transactions() -> None:
    """10,000 messages over 1,000 keys, each failing once."""
    task, failed, rounds = start(), set[int](), 0
    offset = 0
    while offset < 10_000 or len(task.pending):
        polled = range(offset, min(offset + 500, 10_000))
        offset = polled.stop
        keys = [b"%d" % (each % 1_000) for each in polled]
        taken = task.begin(0, polled, keys, readable=range(10_000))
        for item in taken.work:
            if not item.lane.stopped:
                taken.note(item, DONE if item.id in failed else RETRY)
                failed.add(item.id)
        task.finish(taken, 0)
        task.confirmed()
        rounds += 1
    assert len(failed) == 10_000
    assert rounds <= 40


# ── another main topic with the same name ──


def of_main(main_id: bytes, locks: list[Row], metadata: str | None = None) -> Task:
    startup = StartUp(NAME, settings(), Random(0), 1, main_id)
    for event in (Committed(0, metadata), Ends(len(locks), 0), LocksRead(locks, len(locks))):
        startup.handle(event)
    (started,) = startup.handle(RetriesRead([], 0))
    assert isinstance(started, Started)
    return started.task


def test_the_lock_topic_says_once_which_main_topic_it_is_about() -> None:
    commit = of_main(b"\x01\xff", [], "sexton.retry 1 W=0 of=1").reap()
    assert commit is not None and commit.locks == [(MAIN_ID, b"01ff", "")]
    again = of_main(b"\x01\xff", [(0, MAIN_ID, b"01ff")], "sexton.retry 1 W=0 of=1")
    assert again.reap() is None and codes(again) == []


def test_what_is_of_another_topic_is_not_taken_for_this_ones() -> None:
    said = (0, MAIN_ID, b"01ff")
    with pytest.raises(ConfigError, match=f"{NAME}: offset 0 is of a topic {NAME.topic} that was"):
        of_main(b"\x02", [said], "sexton.retry 1 W=0 of=1")
    with pytest.raises(ConfigError, match=f"{NAME}: 1 messages wait of a topic"):
        of_main(b"\x02", [said, lock(3)])


@pytest.mark.parametrize("metadata", [None, ""], ids=["no offset", "one that somebody has set"])
def test_a_topic_that_left_nothing_behind_is_no_trouble(metadata: str | None) -> None:
    commit = of_main(b"\x02", [(0, MAIN_ID, b"01ff")], metadata).reap()
    assert commit is not None and commit.locks == [(MAIN_ID, b"02", "")]
