"""When may a transaction be aborted? One row for each answer that replicas and coordinator give."""

from __future__ import annotations

import pytest

from sexton.base.partitions import TopicPartition
from sexton.machines.repair_transactions import (
    Age,
    Coordinated,
    Fate,
    Known,
    Opened,
    judge_ending,
)

NOW, MINUTE = 1_800_000_000_000, 60_000


def opened(last_ms: int = NOW - 16 * MINUTE) -> Opened:
    """A transaction of epoch 7; by default one that is too old to be under way."""
    return Opened(TopicPartition("orders", 3), 0, 7, Age(last_ms, NOW, 15 * MINUTE))


def known(*fates: Fate) -> list[Known]:
    return [Known(node, fate, "says so") for node, fate in enumerate(fates, 1)]


def coordinator(state: str, epoch: int = 7, *, has_partition: bool = True) -> Coordinated:
    return Coordinated("orders-7", 2, state, epoch, 60_000, -1, has_partition)


@pytest.mark.parametrize(
    ("fates", "ended", "may_abort"),
    [
        (("open", "committed", "unknown"), "committed", False),
        (("open", "aborted", "unknown"), "aborted", True),
        (("open", "aborted", "committed"), "disputed", False),
        (("open", "unknown", "unknown"), "unknown", False),
        (("open", "open", "unreadable"), "not asked", False),
        (("committed", "unknown", "unknown"), "not open", False),
    ],
)
def test_other_replicas_know(fates: tuple[Fate, ...], ended: str, may_abort: bool) -> None:
    ending = judge_ending(opened(), known(*fates), None, complete=True)
    assert (ending.ended, ending.may_abort) == (ended, may_abort)
    assert may_abort or ended == "not open" or ending.loss


@pytest.mark.parametrize(
    ("said", "may_abort"),
    [
        (coordinator("Ongoing"), False),
        (coordinator("PrepareCommit"), False),
        (coordinator("PrepareAbort"), True),  # it is about to say the same
        (coordinator("Ongoing", has_partition=False), True),  # at work, but not here
        (coordinator("CompleteCommit"), True),
        (None, True),
    ],
)
def test_what_was_aborted_is_not_aborted_once_more_under_the_next_one(
    said: Coordinated | None, may_abort: bool
) -> None:
    """A leader that has missed the marker takes what its producer writes now for the same one."""
    ending = judge_ending(opened(), known("open", "aborted"), said, complete=True)
    assert (ending.ended, ending.may_abort) == ("aborted", may_abort)
    assert bool(ending.loss) is not may_abort
    assert "sexton repair orders:3" in ending.advice


@pytest.mark.parametrize(
    ("complete", "hidden_by"),
    [(False, None), (True, "we may not look"), (False, "we may not look")],
)
def test_nor_while_nobody_can_say_whether_there_is_a_next_one(
    complete: bool, hidden_by: str | None
) -> None:
    ending = judge_ending(
        opened(), known("open", "aborted"), None, complete=complete, hidden_by=hidden_by
    )
    assert (ending.ended, ending.may_abort) == ("aborted", False)
    assert ending.loss and "sexton repair orders:3" in ending.advice


@pytest.mark.parametrize(
    ("said", "ended", "may_abort"),
    [
        (None, "hanging", True),
        (coordinator("Ongoing"), "under way", False),
        (coordinator("PrepareCommit"), "under way", False),
        (coordinator("Ongoing", has_partition=False), "hanging", True),
        # A partition leaves its list once the marker was written there.
        (coordinator("PrepareCommit", has_partition=False), "unknown", False),
        (coordinator("PrepareAbort", has_partition=False), "hanging", True),
        (coordinator("CompleteAbort"), "hanging", True),
        (coordinator("CompleteCommit"), "unknown", False),
        (coordinator("CompleteCommit", epoch=8), "unknown", False),  # KIP-890: its marker's epoch
        (coordinator("Empty"), "hanging", True),
    ],
)
def test_open_everywhere_the_coordinator_decides(
    said: Coordinated | None, ended: str, may_abort: bool
) -> None:
    ending = judge_ending(opened(), known("open", "open", "open"), said, complete=True)
    assert (ending.ended, ending.may_abort) == (ended, may_abort)


@pytest.mark.parametrize(
    ("said", "ended"),
    [
        (None, "not asked"),
        (coordinator("Ongoing"), "under way"),
        (coordinator("PrepareCommit"), "under way"),
        (coordinator("Ongoing", has_partition=False), "not asked"),
        (coordinator("CompleteAbort"), "not asked"),
        (coordinator("CompleteCommit"), "not asked"),
        (coordinator("Empty"), "not asked"),
    ],
)
def test_while_a_replica_is_silent_a_coordinator_is_heard_and_nothing_is_aborted(
    said: Coordinated | None, ended: str
) -> None:
    ending = judge_ending(opened(), known("open", "open", "unreadable"), said, complete=True)
    assert (ending.ended, ending.may_abort, ending.complete) == (ended, False, False)
    assert ending.loss and "broker 3 says so" in ending.because
    assert said is None or f"says {said.state}" in ending.because


def test_silence_of_a_coordinator_is_no_answer() -> None:
    ending = judge_ending(opened(), known("open", "open"), None, complete=False)
    assert (ending.ended, ending.may_abort, ending.complete) == ("not asked", False, False)


@pytest.mark.parametrize(
    ("said", "ended"),
    [
        (coordinator("Ongoing"), "under way"),
        (coordinator("PrepareCommit"), "under way"),
        (coordinator("Ongoing", has_partition=False), "not asked"),
        (coordinator("PrepareAbort", has_partition=False), "not asked"),
        (coordinator("CompleteAbort"), "not asked"),
        (coordinator("CompleteCommit"), "unknown"),
        (coordinator("Empty"), "not asked"),
    ],
)
def test_one_that_may_have_been_replaced_cannot_say_that_nobody_is_at_it(
    said: Coordinated, ended: str
) -> None:
    ending = judge_ending(opened(), known("open", "open"), said, complete=False)
    assert (ending.ended, ending.may_abort) == (ended, False)
    assert ending.loss
    ending = judge_ending(opened(), known("open", "aborted"), said, complete=False)
    assert (ending.ended, ending.may_abort) == ("aborted", False)
    assert ending.loss


@pytest.mark.parametrize(
    ("last_ms", "ended", "may_abort"),
    [
        (NOW - 15 * MINUTE - 1, "hanging", True),
        (NOW - 15 * MINUTE, "too young", False),
        (NOW, "too young", False),
        (NOW + MINUTE, "too young", False),  # clocks differ
        (NOW + 16 * MINUTE, "unknown", False),  # its producer lies about the time
    ],
)
def test_an_unknown_producer_may_be_one_that_we_may_not_see(
    last_ms: int, ended: str, may_abort: bool
) -> None:
    """Where none can hide it, it is waited for all the same, as long as one may take."""
    ending = judge_ending(opened(last_ms), known("open", "open", "open"), None, complete=True)
    assert (ending.ended, ending.may_abort) == (ended, may_abort)
    assert may_abort or ending.loss


@pytest.mark.parametrize(
    ("last_ms", "ended"), [(NOW - 16 * MINUTE, "not asked"), (0, "not asked"), (NOW, "too young")]
)
def test_age_does_not_make_up_for_a_coordinator_that_may_hide_it(last_ms: int, ended: str) -> None:
    """Records carry the time that their producer gives them."""
    ending = judge_ending(
        opened(last_ms), known("open", "open"), None, complete=True, hidden_by="we may not look"
    )
    assert (ending.ended, ending.may_abort) == (ended, False)
    assert ending.loss and (ended == "too young" or "we may not look" in ending.because)


def test_what_waits_is_rebuilt_by_a_command_that_one_can_copy() -> None:
    ending = judge_ending(opened(), known("open", "committed"), None, complete=True)
    assert "`sexton repair orders:3`" in ending.advice


def test_a_coordinator_that_is_late_is_not_overruled() -> None:
    late = Coordinated("orders-7", 2, "Ongoing", 7, 60_000, NOW - 3 * MINUTE, True)
    ending = judge_ending(opened(), known("open", "open"), late, complete=True)
    assert (ending.ended, ending.may_abort) == ("under way", False)
    assert "restart broker 2" in ending.advice
