"""What tasks have noted of rows, told to the machines as if they had run the rows themselves.

A machine's round wants every message that came from the main topic; but one that is done changes
nothing, so those that no task has noted are not told: a batch of a million rows of which ten failed
is a round of ten messages, and of those that wait behind them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from sexton.base.errors import PeerError
from sexton.machines.retry_pending import UNKNOWN, LaneKey, lane_key
from sexton.machines.retry_rounds import Failure, Item, Lane, Outcome, Round
from sexton.spark.retry_handling import LEFT
from sexton.spark.retry_reading import Owned


def as_written(lane: Lane) -> Iterator[Item]:
    """Its messages as far as each was written after the one before it.

    Payloads are read in the order in which they were written, as many as there is room for. So the
    first one that is read is the first of its key, and may be tried.
    """
    last = -1
    for item in lane.items:
        if item.retry_offset < last:
            return
        last = item.retry_offset
        yield item


def leave_out(taken: Round, payloads: Container[int]) -> None:
    """Those whose payload was not read, and the later ones of their keys: they stay as they are.

    A key of which nothing is left stays in the round, so that its turn comes again at its end.
    """
    for lane in taken.retry_lanes:
        for place, item in enumerate(lane.items):
            if item.id not in payloads:
                del lane.items[place:]
                break


def take_notes(
    owned: Mapping[int, Owned],
    rounds: Mapping[int, Round],
    notes: Iterable[Any],
    seen: Iterable[Any],
) -> None:
    """Rows of Spark: each note once, and how far the batch goes in each partition."""
    for row in seen:
        if row.of >= 0:
            taken = rounds[row.of]
            taken.position = max(taken.position, row.id + 1)
    by_partition: dict[int, list[Any]] = {}
    for row in notes:
        by_partition.setdefault(row.of, []).append(row)
    for number, rows in by_partition.items():
        rows.sort(key=lambda row: row.id)
        _take(owned[number], rounds[number], rows)


def _take(owned: Owned, taken: Round, rows: list[Any]) -> None:
    retries = {item.id: item for lane in taken.retry_lanes for item in lane.items}
    lanes: dict[LaneKey, Lane] = {}
    blocked = owned.task.blocked()
    for row in rows:
        if not row.retry and row.id in owned.task.pending.held:
            continue  # it came again, after offsets were lost; its turn comes with the retries
        if row.retry:
            item = retries.pop(row.id)
        else:
            key = None if row.lock_key is None else bytes(row.lock_key)
            item = _main(lanes, row.id, key)
            if item.lane.key in blocked or item.lane.key in taken.orders.keys:
                taken.blocked.append(item)
            else:
                item.lane.items.append(item)
        if row.outcome != LEFT:
            failure = None if row.reason is None else Failure(row.reason, row.exception or "")
            taken.note(item, Outcome(row.outcome), failure, row.after_ms)
    if retries:
        raise PeerError("Spark", f"has not said what became of {len(retries)} retries")
    taken.main_lanes = [lane for lane in lanes.values() if lane.items]


def _main(lanes: dict[LaneKey, Lane], message: int, key: bytes | None) -> Item:
    in_lane = lane_key(key, message)
    lane = lanes.setdefault(in_lane, Lane(in_lane))
    return Item(message, key, 0, 0, UNKNOWN, lane)
