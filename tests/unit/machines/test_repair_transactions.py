"""When may a transaction be aborted? One row for each answer that replicas and coordinator give."""

from __future__ import annotations

import pytest

from sexton.machines.repair_transactions import Coordinated, Fate, Known, judge_ending


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
    ending = judge_ending(0, 7, known(*fates), None, complete=True)
    assert (ending.ended, ending.may_abort) == (ended, may_abort)
    assert may_abort or ended == "not open" or ending.loss


@pytest.mark.parametrize(
    ("said", "ended", "may_abort"),
    [
        (None, "hanging", True),
        (coordinator("Ongoing"), "under way", False),
        (coordinator("PrepareCommit"), "under way", False),
        (coordinator("Ongoing", has_partition=False), "hanging", True),
        (coordinator("CompleteAbort"), "hanging", True),
        (coordinator("CompleteCommit"), "unknown", False),
        (coordinator("CompleteCommit", epoch=8), "unknown", False),  # KIP-890: its marker's epoch
        (coordinator("Empty"), "hanging", True),
    ],
)
def test_open_everywhere_the_coordinator_decides(
    said: Coordinated | None, ended: str, may_abort: bool
) -> None:
    ending = judge_ending(0, 7, known("open", "open", "open"), said, complete=True)
    assert (ending.ended, ending.may_abort) == (ended, may_abort)


def test_silence_of_a_coordinator_is_no_answer() -> None:
    ending = judge_ending(0, 7, known("open", "open"), None, complete=False)
    assert (ending.ended, ending.may_abort) == ("not asked", False)
