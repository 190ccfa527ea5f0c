"""What is written to the lock, retry and dead-letter topics, byte by byte?

A message is named by where it is in the main topic: `orders-3-17`. This name, its id, is the key of
its lock and of its retry record, so that writing either one twice changes nothing, and compaction
keeps one of each for as long as the message waits:

    lock-3    orders-3-17   1 waiting 2 1731750000000 1731740000000 order-123
                            │    │    │       │             │           └ business key, to the end
                            │    │    │       │             └ locked since
                            │    │    │       └ not before
                            │    │    └ attempts so far
                            │    └ or `dead`: its ceiling is reached and it holds the key
                            └ format
              main:id       the topic id of main: names are given again, ids are not
    retry-3   orders-3-17   the message, its key and time in headers
              command:...   what an operator asks for; the owner of the task deletes it when done
    both      main:start    null: what is before it, the owner that wrote it has read
    dead-3    order-123     the message, what became of it in headers
              order-123     null: a note that it was sent to the main topic again, and as which one
    offsets   main-3        17, "sexton.retry 1 W=17 of=6": below W nothing is pending

A lock is one line of text so that an operator can read it with any consumer, and so that a million
of them are read in a second. A topic's name has no colon in it: a command is never taken for an id.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import field
from typing import Literal, NamedTuple, get_args

from sexton.base.errors import CorruptLog
from sexton.base.lazy_dataclass import dataclass

Header = tuple[str, bytes | None]

FORMAT = 1
WAITING, DEAD = b"waiting", b"dead"
COMMAND = b"command:"
MAIN_ID = b"main:id"
STARTED = b"main:start"
IN_VAIN = "sexton.retry.in-vain"  # a header of a command's tombstone: it has changed nothing
REASON = "sexton.retry.reason"  # a lock's header: why its message failed last
MOST_REASON_BYTES = 500
MOST_STACK_BYTES = 16_000  # a broker's default record limit is 1 MB, and the message needs room too


@dataclass(frozen=True, slots=True)
class TaskName:
    """One partition of the main topic, and what goes with it in the other topics."""

    topic: str
    partition: int
    prefix: bytes = field(init=False, repr=False, compare=False)  # of each of its ids

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix", f"{self.topic}-{self.partition}-".encode())

    def id_of(self, offset: int) -> bytes:
        return b"%b%d" % (self.prefix, offset)

    def offset_of(self, key: bytes) -> int | None:
        """None: the id of no message of this task."""
        prefix = self.prefix
        digits = key[len(prefix) :]
        # ASCII only, and as we write it: `017` would be a second name of 17.
        if not key.startswith(prefix) or not digits.isdigit() or len(digits) > 18:
            return None
        return None if digits[0] == 0x30 and len(digits) > 1 else int(digits)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


# ── locks ──


class LockRecord(NamedTuple):
    dead: bool
    attempts: int  # handler runs that failed
    not_before_ms: int
    since_ms: int  # when the message was first locked
    key: bytes | None  # business key; None: the message has none, and blocks nobody

    def encode(self) -> bytes:
        return lock_line(*self)

    @classmethod
    def decode(cls, value: bytes) -> LockRecord:
        """Or CorruptLog: a lock that nobody understands must not be taken for none."""
        parts = value.split(b" ", 5)
        try:
            number, state, attempts, not_before_ms, since_ms = parts[:5]
            if int(number) != FORMAT or state not in (WAITING, DEAD):
                raise ValueError
            key = parts[5] if len(parts) == 6 else None
            return cls(state == DEAD, int(attempts), int(not_before_ms), int(since_ms), key)
        except ValueError:
            shown = value[:60].decode(errors="replace")
            raise CorruptLog("lock record", f"not understood: {shown!r}") from None


def lock_line(
    dead: bool, attempts: int, not_before_ms: int, since_ms: int, key: bytes | None
) -> bytes:
    """A lock as it is written: thousands at a time in a storm, so no record is made for it."""
    state = DEAD if dead else WAITING
    if key is None:
        return b"%d %b %d %d %d" % (FORMAT, state, attempts, not_before_ms, since_ms)
    return b"%d %b %d %d %d %b" % (FORMAT, state, attempts, not_before_ms, since_ms, key)


# ── retry records ──

_OURS = (
    _KEY := "sexton.retry.key",
    _LOCK_KEY := "sexton.retry.lock-key",
    _VALUE := "sexton.retry.value",
    _TIMESTAMP := "sexton.retry.timestamp",
)
# In the place of the lock key: it is the message's own. A key may be as large as a message, and to
# write it twice could make one that the main topic took too large for the retry topic.
_SAME_KEY = "sexton.retry.lock-key.same"


class RetryRecord(NamedTuple):
    """A message of the main topic, as it is kept in the retry topic."""

    key: bytes | None
    lock_key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp_ms: int

    def encode(self) -> tuple[bytes, list[Header]]:
        """Value and headers. The value is never null: that would be a tombstone."""
        return self.value or b"", retry_headers(*self)

    @classmethod
    def decode(cls, value: bytes, headers: Sequence[Header]) -> RetryRecord:
        """Ours are the last four: the message may have headers of the same name itself."""
        theirs, ours = tuple(headers[:-4]), headers[-4:]
        names = tuple(name for name, _ in ours)
        is_same = names == (_KEY, _SAME_KEY, _VALUE, _TIMESTAMP)
        if names != _OURS and not is_same:
            raise CorruptLog("retry record", "its last headers are not those of a retry record")
        key, lock_key, kept, timestamp = (told for _, told in ours)
        lock_key = key if is_same else lock_key
        shown = None if kept == b"null" else value
        try:
            return cls(key, lock_key, shown, theirs, int(timestamp or b"-1"))
        except ValueError:
            raise CorruptLog("retry record", f"its time is {timestamp!r:.60}") from None


def retry_headers(
    key: bytes | None,
    lock_key: bytes | None,
    value: bytes | None,
    headers: tuple[Header, ...],
    timestamp_ms: int,
) -> list[Header]:
    kept = b"null" if value is None else b"here"
    return [
        *headers,
        (_KEY, key),
        (_SAME_KEY, None) if lock_key == key else (_LOCK_KEY, lock_key),
        (_VALUE, kept),
        (_TIMESTAMP, b"%d" % timestamp_ms),
    ]


# ── operator commands ──

Verb = Literal["redrive", "discard", "skip", "reap"]
VERBS: tuple[str, ...] = get_args(Verb)


@dataclass(frozen=True, slots=True)
class Command:
    do: Verb
    id: int = -1  # the message's offset; `reap` has none
    key: bytes | None = None  # business key, where a message without a lock is to be locked again
    by: str = ""
    at_ms: int = 0


def command_record(name: TaskName, command: Command, token: str) -> tuple[bytes, bytes]:
    """For the retry topic's partition of this task; `token` makes it another one each time."""
    told = {
        "format": FORMAT,
        "do": command.do,
        "id": None if command.id < 0 else name.id_of(command.id).decode(),
        "key": None if command.key is None else base64.b64encode(command.key).decode(),
        "by": command.by,
        "at_ms": command.at_ms,
    }
    value = json.dumps(told, separators=(",", ":"))
    return COMMAND + token.encode(), value.encode()


def read_command(name: TaskName, value: bytes) -> Command | None:
    """None: not understood, or about a message of another task."""
    try:
        told = json.loads(value)
        if told["format"] != FORMAT or told["do"] not in VERBS:
            return None
        offset = -1 if told["id"] is None else name.offset_of(told["id"].encode())
        if offset is None or (offset < 0 and told["do"] != "reap"):
            return None
        key = None if told["key"] is None else base64.b64decode(told["key"], validate=True)
        return Command(told["do"], offset, key, str(told["by"]), int(told["at_ms"]))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def command_headers(*, in_vain: bool) -> list[Header]:
    """Of a command's tombstone, for whoever has asked for it and waits for an answer."""
    return [(IN_VAIN, b"")] if in_vain else []


# ── the offset's metadata ──

_METADATA = re.compile(r"sexton\.retry 1 W=(\d{1,18}) of=(\d{1,9})")


class Watermark(NamedTuple):
    w: int  # below it, nothing is pending
    partitions: int  # of the main topic, when this was committed

    def encode(self) -> str:
        return f"sexton.retry {FORMAT} W={self.w} of={self.partitions}"

    @classmethod
    def decode(cls, metadata: str | None) -> Watermark | None:
        """None: not ours, after somebody has reset the group's offsets say."""
        match = _METADATA.fullmatch(metadata or "")
        return None if match is None else cls(int(match[1]), int(match[2]))


# ── dead letters ──

_DEAD_ID = "sexton.dead.id"
_DEAD_REASON = "sexton.dead.reason"
_DEAD_ATTEMPTS = "sexton.dead.attempts"
_DEAD_STATE = "sexton.dead.state"
_SENT = "sexton.dead.sent"
_SENT_AS = "sexton.dead.sent.as"


def dead_letter_headers(
    message: bytes,
    attempts: int,
    reason: str,
    exception: str = "",
    stack: str = "",
    *,
    timestamp_ms: int | None,
    held: bool = False,
) -> list[Header]:
    """To go behind the message's own headers.

    `timestamp_ms` is the message's own. The letter has the time at which it is written: letters are
    deleted by their time, and that of a message which is older than they are kept would be at once.
    """
    told: list[Header] = [
        (_DEAD_ID, message),
        (_DEAD_REASON, _cut(reason, MOST_REASON_BYTES)),
        (_DEAD_ATTEMPTS, b"%d" % attempts),
        ("sexton.dead.exception", _cut(exception, MOST_REASON_BYTES)),
        ("sexton.dead.stack", _cut(stack, MOST_STACK_BYTES)),
        (_DEAD_STATE, b"held" if held else b"freed"),
    ]
    if timestamp_ms is not None and timestamp_ms >= 0:
        told.append(("sexton.dead.timestamp", b"%d" % timestamp_ms))
    return told


class LetterSays(NamedTuple):
    """What the headers of a dead letter tell about its message."""

    id: bytes
    attempts: int
    reason: str
    held: bool  # when the letter was written, the message stayed in its place and held its key


class NoteSays(NamedTuple):
    """A record among the letters: this message was sent to the main topic again, as that one."""

    id: bytes
    sent_as: str


def note_headers(message: bytes, sent_as: bytes) -> list[Header]:
    return [(_SENT, message), (_SENT_AS, sent_as)]


def read_letter(headers: Sequence[Header]) -> LetterSays | NoteSays | None:
    """None: neither, something that somebody else wrote there.

    Where a name comes twice the last one is ours: a letter that was copied to the main topic with
    all its headers may have become a letter again.
    """
    told = dict(headers)
    if (message := told.get(_DEAD_ID)) is not None:
        attempts = told.get(_DEAD_ATTEMPTS) or b""
        reason = (told.get(_DEAD_REASON) or b"").decode(errors="replace")
        run = int(attempts) if attempts.isdigit() else 0
        return LetterSays(message, run, reason, told.get(_DEAD_STATE) == b"held")
    if (message := told.get(_SENT)) is not None:
        return NoteSays(message, (told.get(_SENT_AS) or b"").decode(errors="replace"))
    return None


def headers_again(headers: Sequence[Header]) -> list[Header]:
    """Of the message itself, without what its letter says about it."""
    return [each for each in headers if not each[0].startswith("sexton.dead.")]


def reason_headers(reason: str) -> list[Header]:
    """Of a lock record whose message has failed."""
    return [(REASON, _cut(reason, MOST_REASON_BYTES))] if reason else []


def _cut(text: str, most: int) -> bytes:
    """At most so many bytes, and still text; a stack says most at its end."""
    raw = text.encode(errors="replace")
    return raw if len(raw) <= most else raw[-most:].decode(errors="ignore").encode()
