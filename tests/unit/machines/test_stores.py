"""A task, event by event: the order in which it asks, doubtful disks, and when it stops."""

from __future__ import annotations

from sexton.machines.stores import Task
from sexton.machines.stores_events import (
    Aborted,
    Apply,
    Bounds,
    BoundsTold,
    Checkpoint,
    Commit,
    CommitDue,
    Committed,
    Discard,
    Effect,
    Elsewhere,
    Fenced,
    FetchOffset,
    FindBounds,
    Given,
    Initialised,
    InitProducer,
    Lineage,
    OffsetTold,
    Opened,
    PositionGone,
    Processed,
    Read,
    Replay,
    Role,
    Run,
    Stop,
    TaskConfig,
    Tick,
    Unsure,
    Wipe,
)

OURS = Lineage("cluster", b"topic")
DAY_MS = 86_400_000
NOW_MS = 100 * DAY_MS


def at(position: int, caught_up_ms: int = NOW_MS) -> Checkpoint:
    return Checkpoint(OURS, position, 0, caught_up_ms)


def opened(found: Checkpoint | None = None, input_position: int | None = None) -> Task:
    task = Task(TaskConfig(DAY_MS, restore_timeout_ms=60_000))
    assert task.handle(Opened(NOW_MS, OURS, found, input_position)) == []
    return task


def bounds(end: int, **more: int) -> BoundsTold:
    given = {"log_start": 0, "high_watermark": end, "log_end": end, **more}
    return BoundsTold(NOW_MS, Bounds(**given))


def running(position: int = 10, input_position: int = 5) -> Task:
    task = opened(at(position), input_position)
    task.handle(Given(NOW_MS, Role.ACTIVE, 1))
    task.handle(Initialised())
    task.handle(OffsetTold(input_position))
    assert task.handle(bounds(position)) == [Run(input_position, promoted=True)]
    return task


def test_a_promotion_fences_first_and_asks_for_the_end_last() -> None:
    task = opened(at(10), 5)
    assert task.handle(Given(NOW_MS, Role.ACTIVE, 1)) == [InitProducer()]
    assert task.handle(Initialised()) == [FetchOffset()]
    assert task.handle(OffsetTold(7)) == [FindBounds(10, 0)]
    assert task.handle(bounds(14)) == [Replay(10, 14)]
    read = Read(NOW_MS, 10, 12, 14, 0, 6)
    assert task.handle(read) == [Apply(at(12), 6), Replay(12, 14)]
    read = Read(NOW_MS, 12, 14, 14, 0, 7)
    assert task.handle(read) == [Apply(at(14), 7), Run(7, promoted=True)]


def test_nothing_is_applied_before_the_commit_is_confirmed() -> None:
    task = running()
    assert task.handle(Processed(9)) == []
    assert task.handle(CommitDue(NOW_MS)) == [Commit(1, 9, lands_at=10)]
    assert task.handle(CommitDue(NOW_MS)) == []  # one at a time
    assert task.handle(Committed(NOW_MS, 13, 0)) == [Apply(at(13), 9), Run(9, promoted=False)]


def test_an_abort_goes_back_to_what_is_committed() -> None:
    task = running()
    task.handle(Processed(7))
    task.handle(CommitDue(NOW_MS))
    task.handle(Committed(NOW_MS, 13, 0))
    task.handle(Processed(9))
    task.handle(CommitDue(NOW_MS))
    assert task.handle(Aborted()) == [Discard(), Run(7, promoted=False)]


def test_after_an_abort_of_its_first_commit_it_has_to_read_again() -> None:
    """Its own records are in the changelog now, and the end is somewhere else."""
    task = running()
    task.handle(Processed(9))
    task.handle(CommitDue(NOW_MS))
    assert task.handle(Aborted()) == [Discard(), InitProducer()]


# ── an end that was told by a leader that was replaced ──


def landing_elsewhere(task: Task, lands_at: int, offset: int) -> list[Effect]:
    task.handle(Processed(9))
    assert task.handle(CommitDue(NOW_MS)) == [Commit(1, 9, lands_at)]
    return task.handle(Elsewhere(offset))


def test_a_first_record_that_lands_elsewhere_starts_the_promotion_again() -> None:
    task = running()
    assert landing_elsewhere(task, 10, 14) == [Discard(), InitProducer()]
    task.handle(Initialised())
    # Its own record at 14 is in the changelog: who says that it ends before is asked no more.
    assert task.handle(OffsetTold(5)) == [FindBounds(10, 0, least_end=15)]
    assert task.handle(bounds(16)) == [Replay(10, 16)]
    [_, run] = task.handle(Read(NOW_MS, 10, 16, 16, 0, 7))
    assert run == Run(7, promoted=True)
    task.handle(Processed(9))
    assert task.handle(CommitDue(NOW_MS)) == [Commit(1, 9, lands_at=16)]
    task.handle(Committed(NOW_MS, 18, 0))
    task.handle(Processed(11))
    assert task.handle(CommitDue(NOW_MS)) == [Commit(1, 11)]  # from now on nobody else can write


def test_an_owner_that_is_kept_still_has_to_prove_its_first_commit() -> None:
    task = running()
    assert task.handle(Given(NOW_MS, Role.ACTIVE, 2)) == []
    task.handle(Processed(9))
    assert task.handle(CommitDue(NOW_MS)) == [Commit(2, 9, lands_at=10)]


def test_a_changelog_with_another_writer_stops_the_task() -> None:
    task, read_to = running(), 10
    for end in range(20, 60, 10):
        assert landing_elsewhere(task, read_to, end) == [Discard(), InitProducer()]
        task.handle(Initialised())
        task.handle(OffsetTold(5))
        task.handle(bounds(end + 2))
        task.handle(Read(NOW_MS, read_to, end + 2, end + 2, 0, 5))
        read_to = end + 2
    _, stop = landing_elsewhere(task, read_to, 60)
    assert isinstance(stop, Stop)
    assert "5 times in a row: somebody else writes to it" in stop.why


def test_nobody_is_waited_for_without_an_end() -> None:
    """An unclean election may have lost what the task wrote."""
    task = running()
    landing_elsewhere(task, 10, 14)
    task.handle(Initialised())
    task.handle(OffsetTold(5))
    assert task.handle(Tick(NOW_MS)) == []
    assert task.handle(Tick(NOW_MS + 60_000)) == []
    _, stop = task.handle(Tick(NOW_MS + 60_001))
    assert isinstance(stop, Stop)
    assert "what this task wrote below 15" in stop.why


def test_a_copy_does_not_wait_for_what_its_instance_wrote() -> None:
    task = running()
    landing_elsewhere(task, 10, 14)
    assert task.handle(Given(NOW_MS, Role.STANDBY, 2)) == [Discard(), FindBounds(10, 0)]


def test_when_nobody_knows_it_starts_again() -> None:
    task = running()
    task.handle(Processed(9))
    task.handle(CommitDue(NOW_MS))
    assert task.handle(Unsure()) == [Discard(), InitProducer()]


def test_a_fenced_owner_starts_again_and_one_that_was_left_behind_waits() -> None:
    assert running().handle(Fenced("producer")) == [Discard(), InitProducer()]
    task = running()
    assert task.handle(Fenced("group", 1)) == [Discard()]
    assert task.handle(Given(NOW_MS, Role.ACTIVE, 2)) == [Discard(), InitProducer()]


def test_an_owner_of_the_next_generation_goes_on_undisturbed() -> None:
    task = running()
    task.handle(Processed(9))
    assert task.handle(Given(NOW_MS, Role.ACTIVE, 2)) == []
    assert task.handle(CommitDue(NOW_MS)) == [Commit(2, 9, lands_at=10)]
    # Refused with a number from before it heard of the new one: the task is its own all the same.
    assert task.handle(Fenced("group", 1)) == [Discard(), InitProducer()]


def test_an_owner_that_missed_a_generation_starts_again() -> None:
    task = running()
    assert task.handle(Given(NOW_MS, Role.ACTIVE, 3)) == [Discard(), InitProducer()]


def test_a_disk_of_another_changelog_goes() -> None:
    task = Task()
    for other in (Lineage("elsewhere", b"topic"), Lineage("cluster", b"made again")):
        [effect] = task.handle(Opened(NOW_MS, OURS, Checkpoint(other, 3, 0, NOW_MS), 1))
        assert isinstance(effect, Wipe)
        assert task.store is None


def test_a_position_outside_the_log_goes() -> None:
    for told in (bounds(9), bounds(20, log_start=11), bounds(20, parts_at=9)):
        task = opened(at(10), 5)
        task.handle(Given(NOW_MS, Role.STANDBY, 1))
        wiped, replay = task.handle(told)
        assert isinstance(wiped, Wipe)
        assert replay == Replay(told.bounds.log_start, None)


def test_a_disk_older_than_the_tombstones_goes_unless_the_cluster_knows_better() -> None:
    old = at(10, NOW_MS - DAY_MS)
    for told, goes in (
        (bounds(20), True),
        (bounds(20, mtro=11), True),
        (bounds(20, mtro=10), False),
    ):
        task = opened(old, 5)
        task.handle(Given(NOW_MS, Role.STANDBY, 1))
        assert isinstance(task.handle(told)[0], Wipe) is goes
    task = opened(old, 5)
    task.handle(Given(NOW_MS, Role.STANDBY, 1))
    assert task.handle(bounds(10)) == [Replay(10, None)]  # nothing was written since


def test_a_restore_that_takes_longer_than_tombstones_are_kept_begins_again() -> None:
    task = opened()
    task.handle(Given(NOW_MS, Role.STANDBY, 1))
    task.handle(bounds(100))
    late = Read(NOW_MS + DAY_MS, 0, 50, 100, 0, None)
    wiped, again = task.handle(late)
    assert isinstance(wiped, Wipe)
    assert again == FindBounds(-1, -1)


def test_a_restore_that_stands_still_stops_loudly() -> None:
    task = opened(at(10), 5)
    task.handle(Given(NOW_MS, Role.ACTIVE, 1))
    task.handle(Initialised())
    task.handle(OffsetTold(5))
    task.handle(bounds(20))
    assert task.handle(Tick(NOW_MS + 60_000)) == []
    discard, stop = task.handle(Tick(NOW_MS + 60_001))
    assert (discard, type(stop)) == (Discard(), Stop)
    assert "stands at 10" in str(stop)


def test_a_group_that_is_ahead_of_the_changelog_stops_the_task() -> None:
    task = opened(at(10), 5)
    task.handle(Given(NOW_MS, Role.ACTIVE, 1))
    task.handle(Initialised())
    task.handle(OffsetTold(6))
    _, stop = task.handle(bounds(10))
    assert isinstance(stop, Stop)
    assert "committed input up to 6, but the changelog knows of 5" in stop.why


def test_a_reader_whose_place_is_gone_asks_for_the_bounds() -> None:
    task = opened(at(10), 5)
    task.handle(Given(NOW_MS, Role.STANDBY, 1))
    task.handle(bounds(20))
    assert task.handle(PositionGone()) == [FindBounds(10, 0)]


def test_a_quiet_owner_says_now_and_then_that_it_is_complete() -> None:
    task = running()
    assert task.handle(CommitDue(NOW_MS + 1000)) == []
    assert task.handle(CommitDue(NOW_MS + DAY_MS // 20)) == [Commit(1, 5, lands_at=10)]


def test_a_trusting_task_does_not_read_at_all() -> None:
    """The bug of KAFKA-16017, for the lab."""
    task = Task(TaskConfig(DAY_MS, trust_local_checkpoint=True))
    task.handle(Opened(NOW_MS, OURS, at(10), 5))
    task.handle(Given(NOW_MS, Role.ACTIVE, 1))
    task.handle(Initialised())
    assert task.handle(OffsetTold(9)) == [Run(9, promoted=True)]
