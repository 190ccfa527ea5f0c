"""How does a failed message block its key, and nothing else?

Task p owns partition p of the main, the retry and the lock topic. Four rules keep order:

    1. A main message runs only if nothing is pending for its key; else it is redirected.
    2. A retry runs only if it is the smallest pending id of its key, its time has come, and the
       main topic has been read past it (see below).
    3. Success releases the id. Failure rewrites its lock with one more attempt, in place:
       nothing is ever put behind anything, order comes from ids.
    4. At the ceiling the message goes to the dead letter topic, and frees its key or holds it.

One round after the other:

    begin ──▶ run the lanes ──▶ finish ──▶ one transaction ──▶ confirmed   memory learns of it
                                                └──▶ failed   this task is over; start up again

After a crash without transactions, or when somebody has set the group's offsets back, the main
topic is read again from before messages that wait. One of these must not run yet: an earlier
message of its key may be among those that are to be read again.

Memory changes only in `confirmed`: a release that is seen before it is committed lets the next
message of the key run, and then the transaction aborts. Before the first round `reap` releases what
the start found to be stale (`retry_startup`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import field
from random import Random
from typing import Literal

from sexton.base.errors import ConfigError
from sexton.base.lazy_dataclass import dataclass
from sexton.machines.retry_commands import Orders, obey
from sexton.machines.retry_pending import UNKNOWN, Held, LaneKey, Pending, lane_key
from sexton.machines.retry_records import COMMAND, MAIN_ID, TaskName, Watermark
from sexton.machines.retry_rounds import (
    Commit,
    Item,
    Lane,
    Locked,
    Obeyed,
    Outcome,
    Report,
    Round,
)
from sexton.machines.retry_settings import Settings

Row = tuple[int, bytes | None, bytes | None]  # offset, key, value
Ended = Literal["aborted", "fenced", "unknown"]
SHORT = 2  # the message that failed, which may go well now, and the one behind it
Next = Literal["start up again", "stop"]


@dataclass(slots=True)
class Stale:
    """What the start found that is to be released: ids."""

    locks: list[int] = field(default_factory=list)
    retries: list[int] = field(default_factory=list)
    never_committed: bool = False  # then the first offset says how many partitions there are
    unnamed: bytes = b""  # the topic id of main that the lock topic is to say; empty: it does

    def __bool__(self) -> bool:
        return bool(self.locks or self.retries or self.never_committed or self.unnamed)


@dataclass(slots=True, eq=False)
class Task:
    name: TaskName
    settings: Settings
    chance: Random
    position: int  # of main-p: below it everything was taken, and is settled or pending
    partitions: int  # of the main topic
    pending: Pending
    stale: Stale = field(default_factory=Stale)
    orders: Orders = field(default_factory=Orders)
    unread: dict[int, None] = field(default_factory=dict)  # heads whose retry record we await
    not_reached: dict[int, None] = field(default_factory=dict)  # heads that main is not yet past
    reach: int = SHORT  # so many messages of one key are taken into a round
    ahead: int = -1  # the last id that was pending at the start, though main is to be read again
    paused: bool = False
    restart: str | None = None  # why this task has to be started up again
    reports: list[Report] = field(default_factory=list)
    _round: Round | None = None
    _commit: Commit | None = None

    # ── a round ──

    def reap(self) -> Commit | None:
        """To be confirmed before the first round, if there is anything."""
        assert self._round is None and self._commit is None
        if not self.stale:
            return None
        commit = self._new_commit(self.position)
        commit.lock_tombstones = [self.name.id_of(message) for message in self.stale.locks]
        commit.retry_tombstones = [self.name.id_of(message) for message in self.stale.retries]
        if self.stale.unnamed:
            commit.locks.append(Locked(MAIN_ID, self.stale.unnamed, ""))
        self.stale = Stale()
        self._commit = commit
        return commit

    def begin(
        self,
        now_ms: int,
        offsets: Sequence[int],
        keys: Sequence[bytes | None],
        position: int | None = None,
        readable: Container[int] = (),
    ) -> Round:
        """What was polled, in log order; `readable`: ids whose payload the caller still has."""
        assert self._round is None and self._commit is None, "one round at a time"
        assert not self.stale, "reap comes first"
        if position is None:
            position = offsets[-1] + 1 if offsets else self.position
        taken = Round(self.settings, max(position, self.position))
        obey(self.orders, self.name, self.pending, taken, self.reports)
        self._take_retries(taken, now_ms, readable)
        self._take_main(taken, offsets, keys)
        self._round = taken
        return taken

    def _take_retries(self, taken: Round, now_ms: int, readable: Container[int]) -> None:
        held_ids = self.pending.held
        due = self.pending.take_due(now_ms, self.settings.round_limit)
        room = max(1, self.settings.round_limit // max(1, len(due)))  # no key takes all of it
        most, position = min(self.reach, room), self.position
        for head in due:
            key = lane_key(held_ids[head].key, head)
            lane = Lane(key)
            if key in taken.orders.keys:
                self.pending.offer(key)
                continue
            for message in self.pending.by_key[key][:most]:
                held = held_ids[message]
                if held.dead or held.not_before_ms > now_ms:
                    break
                if message >= position:
                    self.not_reached[message] = None
                    break
                if held.retry_offset == UNKNOWN and message not in readable:
                    if message == head:
                        self.unread[message] = None
                    break
                lane.items.append(
                    Item(message, held.key, held.attempts, -1, held.retry_offset, lane)
                )
            if lane.items:
                taken.retry_lanes.append(lane)
                taken.work += lane.items
        taken.retries += taken.work  # the main messages follow later

    def _take_main(
        self, taken: Round, offsets: Sequence[int], keys: Sequence[bytes | None]
    ) -> None:
        blocked_keys, ahead = self.blocked(), self.ahead
        lanes: dict[LaneKey, Lane] = {}
        work, blocked = taken.work, taken.blocked
        for index, (offset, key) in enumerate(zip(offsets, keys, strict=True)):
            in_lane: LaneKey = offset if key is None else key
            if offset <= ahead and offset in self.pending.held:
                self._same_key(offset, key)
                taken.again[offset] = index  # its turn comes with the retries
                continue
            lane = lanes.get(in_lane)
            if lane is None:
                stopped = in_lane in blocked_keys or in_lane in taken.orders.keys
                lane = lanes[in_lane] = Lane(in_lane, [], stopped)
            item = Item(offset, key, 0, index, UNKNOWN, lane)
            if lane.stopped:
                blocked.append(item)
            else:
                lane.items.append(item)
                work.append(item)
        taken.main_lanes = [lane for lane in lanes.values() if not lane.stopped]

    def blocked(self) -> Container[LaneKey]:
        """Keys that something is pending for."""
        return self.pending.by_key

    def _same_key(self, offset: int, key: bytes | None) -> None:
        if self.pending.held[offset].key != key:
            why = "waits under another key than the main topic shows for it now"
            raise another_message(self.name, offset, why)

    def finish(self, taken: Round, now_ms: int) -> Commit:
        """What it writes. Whatever has not run stays pending, or becomes it."""
        assert taken is self._round
        commit = self._new_commit(taken.position)
        self._end_orders(commit, taken.orders)
        self._learn_reach(taken.retry_lanes)
        done, released = Outcome.DONE, list[int]()
        for lane in taken.retry_lanes:
            commit.touched[lane.key] = None
            for item in lane.items:
                if item.outcome is done:
                    released.append(item.id)
                elif item.outcome is None:
                    break  # nor has any after it
                else:
                    self._end_retry(commit, item, now_ms)
            lane.items.clear()
        self._settle(commit, released)
        for lane in taken.main_lanes:
            for item in lane.items:
                if item.outcome is not done:
                    self._end_main(commit, item, now_ms)
            lane.items.clear()  # they point at each other: free without the garbage collector
        for item in taken.blocked:
            self._redirect(commit, item, now_ms, 0)
        commit.watermark = Watermark(self._smallest_after(commit), self.partitions)
        self._round, self._commit = None, commit
        return commit

    def _learn_reach(self, lanes: Sequence[Lane]) -> None:
        """While messages fail, few of a key get their turn; when it is over, more each time."""
        if any(len(lane.items) == self.reach and not lane.stopped for lane in lanes):
            self.reach = min(2 * self.reach, self.settings.round_limit)
        elif any(lane.stopped for lane in lanes):
            self.reach = SHORT

    def confirmed(self, retry_offsets: Mapping[int, int] | None = None) -> None:
        """It is committed. `retry_offsets`: where the redirected messages are now, if known."""
        commit = self._commit
        assert commit is not None
        pending = self.pending
        for message in commit.settled:
            pending.release(message)
        for message, held in commit.changed.items():
            pending.put(message, held)
        for message, offset in (retry_offsets or {}).items():
            if message in commit.changed:
                commit.changed[message].retry_offset = offset
        for key in commit.touched:
            pending.offer(key)
        self.position, self._commit = commit.position, None
        self._reach()
        if commit.begins_again:
            self.restart = "an operator asked for it"
        self._pause_or_resume()

    def _reach(self) -> None:
        """Main has been read again past messages that waited already."""
        for message in [each for each in self.not_reached if each < self.position]:
            del self.not_reached[message]
            if message in self.pending.held:
                self.pending.offer(lane_key(self.pending.held[message].key, message))
        if self.ahead < self.position:
            self.ahead = -1

    def failed(self, how: Ended, owner: bool) -> Next:
        """This task is over: what it wrote may be there or not, and only the log knows.

        `owner`: the group still says that this partition is ours. A fence alone does not mean that
        there is a successor: a predecessor that woke up and initialised the same transactional id
        fences its own successor, and if both stopped, nobody would be left.
        """
        self._round = self._commit = None
        self.restart = how
        return "start up again" if owner else "stop"

    # ── between rounds ──

    def tail(self, rows: Iterable[Row]) -> None:
        """Committed records of retry-p since the start: commands, and where payloads are."""
        assert self._commit is None
        name, held = self.name, self.pending.held
        for offset, key, value in rows:
            if key is None:
                continue
            if key.startswith(COMMAND):
                self.orders.hear(key, value)
                continue
            message = name.offset_of(key)
            if message is None or message not in held:
                continue  # settled already, or not of this task
            if value is None:
                self.restart = f"somebody else has deleted the retry record of {key.decode()}"
                self.reports.append(Report("foreign-tombstone", message, self.restart))
                continue
            held[message].retry_offset = offset
            if message in self.unread:
                del self.unread[message]
                self.pending.offer(lane_key(held[message].key, message))

    def wake_at_ms(self, now_ms: int) -> int | None:
        """When there is something to do without a main message; None: never."""
        if self.orders.waiting or self.stale:
            return now_ms
        due_ms = self.pending.next_due_ms()
        return None if due_ms is None else max(due_ms, now_ms)

    @property
    def reads_main(self) -> bool:
        """False, too, while main is to be read again past what operators may have given up."""
        return not self.paused and not (self.ahead >= 0 and self.orders.waiting)

    def take_reports(self) -> list[Report]:
        taken, self.reports = self.reports, []
        return taken

    def _pause_or_resume(self) -> None:
        count = len(self.pending)
        if not self.paused and count >= self.settings.max_pending and self.ahead < 0:
            self.paused = True
            text = f"{count} messages wait: {self.name} is not read until there are fewer"
            self.reports.append(Report("paused", None, text))
        elif self.paused and count < self.settings.resume_below:
            self.paused = False
            self.reports.append(Report("resumed", None, f"{count} messages wait"))

    # ── what each outcome writes ──

    def _new_commit(self, position: int) -> Commit:
        commit = Commit(position, Watermark(position, self.partitions))
        commit.watermark = Watermark(self._smallest_after(commit), self.partitions)
        return commit

    def _smallest_after(self, commit: Commit) -> int:
        """W. An id at or above the position is never below it: main is read again from there.

        What waits for an operator without a lock is not below it either: it would be taken for
        settled at the next start, and its record removed.
        """
        left = self.pending.smallest(commit.settled)
        found = commit.position if left is None else min(left, commit.position)
        return min((found, *commit.changed, *self.orders.orphans))

    def _end_orders(self, commit: Commit, orders: Obeyed) -> None:
        commit.retry_tombstones += orders.commands
        commit.in_vain = orders.in_vain
        commit.dead += orders.skipped
        commit.begins_again = orders.begins_again
        for message, held in orders.changed.items():
            self._hold(commit, message, held)
        self._settle(commit, orders.settled)
        commit.touched.update(orders.keys)

    def _end_retry(self, commit: Commit, item: Item, now_ms: int) -> None:
        if item.outcome is Outcome.DEAD:
            commit.dead.append(item)
        goes = item.outcome is not Outcome.RETRY
        if goes and not self._holds(item):
            self._settle(commit, (item.id,))
            return
        before = self.pending.held[item.id]
        due_ms = 0 if goes else self._due_ms(item, now_ms)
        since_ms = before.since_ms or now_ms  # 0: its lock was lost, and it is locked anew
        held = Held(item.key, item.attempts, due_ms, since_ms, goes, before.retry_offset)
        self._hold(commit, item.id, held, item)

    def _end_main(self, commit: Commit, item: Item, now_ms: int) -> None:
        match item.outcome:
            case None:
                self._redirect(commit, item, now_ms, 0)
            case Outcome.RETRY:
                self._redirect(commit, item, now_ms, self._due_ms(item, now_ms))
            case Outcome.DEAD:
                commit.dead.append(item)
                if self._holds(item):
                    self._redirect(commit, item, now_ms, 0)

    def _holds(self, item: Item) -> bool:
        return item.outcome is Outcome.DEAD and self.settings.at_ceiling == "held"

    def _due_ms(self, item: Item, now_ms: int) -> int:
        if item.after_ms is not None:
            return now_ms + item.after_ms
        return now_ms + self.settings.backoff.wait_ms(item.attempts, self.chance)

    def _redirect(self, commit: Commit, item: Item, now_ms: int, due_ms: int) -> None:
        held = Held(item.key, item.attempts, due_ms, now_ms, self._holds(item))
        commit.redirected.append(item)
        commit.touched[item.lane.key] = None
        self._hold(commit, item.id, held, item)

    def _hold(self, commit: Commit, message: int, held: Held, item: Item | None = None) -> None:
        reason = item.failure.reason if item is not None and item.failure is not None else ""
        commit.changed[message] = held
        commit.locks.append(Locked(self.name.id_of(message), held.encode(), reason))

    def _settle(self, commit: Commit, messages: Iterable[int]) -> None:
        settled = dict.fromkeys(messages)
        prefix = self.name.prefix
        keys = [b"%b%d" % (prefix, message) for message in settled]
        commit.settled.update(settled)
        commit.lock_tombstones += keys
        commit.retry_tombstones += keys

    def check(self) -> None:
        self.pending.check()
        assert self._round is None or self._commit is None
        assert all(message >= 0 for message in self.pending.held)


def another_message(name: TaskName, message: int, why: str) -> ConfigError:
    """Main is read again, and what waits is not what is there now; to leave either out is to lose
    it."""
    text = name.id_of(message).decode()
    return ConfigError(
        text,
        why,
        f"was the main topic cut by an unclean election? `sexton retry skip {text}` gives up what "
        "waits, and the next start does so first. Was it deleted and created again? Then delete "
        "its lock and retry topics too, or give the new one another name",
    )
