"""What may an operator ask for, and who does it?

Only the owner of a task writes to its lock partition. So a command is a record in the retry topic;
the owner reads it there, does it in its next round and deletes it in the same transaction. If there
was nothing to do, because the message had been handled meanwhile, the tombstone says so:

    redrive   attempts start again at none, and it is due at once; in its place, not behind others
    discard   it is settled: nothing more is written about it
    skip      like discard, but it goes to the dead letter topic first, also one that is held
    reap      the task starts up again, and with that looks for stale locks

A command may also be about an *orphan*, a message with a retry record and no lock. The start
reports these and leaves them alone; redrive locks it again (in its place: later messages of its key
that have run by now cannot be called back), discard and skip remove it.

A message that is held went to the dead letter topic when it reached the ceiling. But letters are
deleted after a time, and it may have been held for longer: what is in the retry topic may be all
that is left of it. So to skip it writes the letter again. Two do no harm, none would be a loss.

What a command touches does not run in the same round.
"""

from __future__ import annotations

from dataclasses import field, replace

from sexton.base.lazy_dataclass import dataclass
from sexton.machines.retry_pending import Held, Pending, lane_key
from sexton.machines.retry_records import Command, TaskName, read_command
from sexton.machines.retry_rounds import Failure, Item, Lane, Obeyed, Outcome, Report, Round

SKIPPED = Failure("skipped by an operator")
DID_NOTHING = ("command-not-understood", "command-about-nothing")  # reports


@dataclass(slots=True)
class Orders:
    waiting: dict[bytes, bytes] = field(default_factory=dict)  # key and value in the retry topic
    orphans: dict[int, int] = field(default_factory=dict)  # id, offset in the retry topic

    def hear(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.waiting.pop(key, None)
        else:
            self.waiting[key] = value


def obey(
    orders: Orders, name: TaskName, pending: Pending, taken: Round, reports: list[Report]
) -> None:
    """Into the round. A second command about the same message waits for the next one.

    So do all that come after as many skips as a round has room for: payloads are read for these.
    """
    for key, value in list(orders.waiting.items()):
        if len(taken.orders.skipped) >= taken.settings.round_limit:
            break
        command = read_command(name, value)
        if command is not None and (
            command.id in taken.orders.changed or command.id in taken.orders.settled
        ):
            continue
        del orders.waiting[key]
        taken.orders.commands.append(key)
        if command is None:
            report = Report("command-not-understood", None, value.decode(errors="replace"))
        else:
            report = _obey(orders, pending, taken, command)
        if report.code in DID_NOTHING:
            taken.orders.in_vain[key] = None
        reports.append(report)


def _obey(orders: Orders, pending: Pending, taken: Round, command: Command) -> Report:
    done, message = taken.orders, command.id
    if command.do == "reap":
        done.begins_again = True
        return Report("starts-up-again", None, f"asked for by {command.by or 'an operator'}")
    held = pending.held.get(message) or _adopted(orders, command)
    if held is None:
        return Report("command-about-nothing", message, f"{command.do}: no such message waits")
    done.keys[lane_key(held.key, message)] = None
    if command.do == "redrive":
        done.changed[message] = replace(held, attempts=0, not_before_ms=0, dead=False)
    else:
        done.settled[message] = None
    if command.do == "skip":
        _skip(taken, done, message, held)
    orders.orphans.pop(message, None)
    return Report(command.do, message, f"asked for by {command.by or 'an operator'}")


def _adopted(orders: Orders, command: Command) -> Held | None:
    offset = orders.orphans.get(command.id)
    if offset is None:
        return None
    return Held(command.key, 0, 0, command.at_ms, dead=False, retry_offset=offset)


def _skip(taken: Round, done: Obeyed, message: int, held: Held) -> None:
    lane = Lane(lane_key(held.key, message), stopped=True)
    item = Item(
        message, held.key, held.attempts, -1, held.retry_offset, lane, Outcome.DEAD, SKIPPED
    )
    done.skipped.append(item)
    taken.retries.append(item)  # its payload is needed
