"""A transaction that is open on some replica: may it be aborted?

`kafka-transactions abort` writes an ABORT marker without asking anybody. Where a replica has merely
missed a COMMIT, that turns acknowledged records into aborted ones. So first all replicas are asked
how the transaction ended, and its coordinator:

    a replica shows its records            committed: no
    a replica hides them, or lists it      aborted: yes, it says the same once more; but no while
                                           its producer is at the next one here
    one has it behind it, and no trace     unknown: no, the replica that waits is to be rebuilt
    open on all, its coordinator is at it  under way: no, it will end
    open on all, nobody will end it        hanging: yes
    the same, and it began just now        too young: no, ask again later
    a replica or coordinator is silent     not asked: no; under way if its coordinator is at it
    another one may coordinate it by now   the same
    a coordinator may hide it from us      not asked: no, however old it seems

There is one more way to lose a marker: a leader elected without being in sync, which the others
then followed. All replicas have the transaction open, and only the coordinator knows. If it says
CompleteCommit, that may be this transaction (since KIP-890 its epoch would be the next one) or
another one of the same producer; so it is not aborted either, unless a person says so. Nor is it
when it says PrepareCommit and does not name this partition: one leaves its list as soon as the
marker was written there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from sexton.base.kafka_options import TRANSACTION_MAX_TIMEOUT_MS
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition

Fate = Literal["open", "committed", "aborted", "unknown", "unreadable"]
Ended = Literal[
    "committed", "aborted", "unknown", "disputed", "under way", "too young", "hanging",
    "not asked", "not open",
]  # fmt: skip
WILL_END: tuple[Ended, ...] = ("under way", "too young", "not open")  # by itself, as far as we know
PATIENCE = 2  # times its timeout
_UNSAID = "not every broker has said which transactions it coordinates"
_CONTESTED = "another broker may coordinate it by now: one is silent, or they do not agree"
_WHEN_ALL_ARE_UP = "ask again when all are up and agree"
_BY_FORCE = "make sure that its producer is gone, then use --force"
UNDER_WAY = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@dataclass(frozen=True, slots=True)
class Known:
    """What one replica knows of a transaction."""

    node: int
    fate: Fate
    how: str  # a clause: `shows its record at offset 7`
    marker: int | None = None


@dataclass(frozen=True, slots=True)
class Coordinated:
    """What the coordinator says of the transaction's producer."""

    transactional_id: str
    node: int
    state: str
    epoch: int
    timeout_ms: int
    started_ms: int
    has_partition: bool


@dataclass(frozen=True, slots=True)
class Age:
    """When it was last written to, by its producer's clock, and how long one may take."""

    last_ms: int
    now_ms: int
    longest_ms: int = TRANSACTION_MAX_TIMEOUT_MS

    @property
    def is_over(self) -> bool:
        return self.now_ms - self.last_ms > self.longest_ms

    @property
    def is_in_future(self) -> bool:
        """By more than clocks differ."""
        return self.last_ms - self.now_ms > self.longest_ms


@dataclass(frozen=True, slots=True)
class Opened:
    """A transaction that some replica has open."""

    partition: TopicPartition
    start: int
    epoch: int
    age: Age


@dataclass(frozen=True, slots=True)
class Ending:
    """How it ended, as far as that is known, and what follows."""

    ended: Ended
    may_abort: bool
    because: str
    loss: str | None  # what an abort would cost, if it may not be
    advice: str
    complete: bool = True  # everybody was asked


def judge_ending(
    opened: Opened,
    known: Sequence[Known],
    coordinator: Coordinated | None,
    *,
    complete: bool,
    hidden_by: str | None = None,
) -> Ending:
    """`coordinator` None: none knows the producer; `complete`: all were asked, and they agree.

    `hidden_by`: why one may know it and not tell us, a clause.
    """
    by_fate: dict[str, list[Known]] = {}
    for each in known:
        by_fate.setdefault(each.fate, []).append(each)
    waiting = _brokers(by_fate.get("open", ()))
    at = opened.partition
    rebuild = f"rebuild what waits: `sexton repair {at.topic}:{at.partition}`"
    if not waiting:
        return Ending("not open", False, "no replica has it open", None, "there is nothing to do")
    records = f"records of it from offset {opened.start} on"
    if "committed" in by_fate and "aborted" in by_fate:
        because = f"{_told(by_fate['committed'])}, but {_told(by_fate['aborted'])}"
        loss = f"{records} may have been committed, and would be hidden on {waiting}"
        return Ending("disputed", False, because, loss, f"audit the topic, then {rebuild}")
    if "committed" in by_fate:
        loss = f"{records} were committed, and would be hidden on {waiting}"
        return Ending("committed", False, _told(by_fate["committed"]), loss, rebuild)
    if "aborted" in by_fate:
        told, unsure = _told(by_fate["aborted"]), None if coordinator else hidden_by
        if not complete:
            unsure = _CONTESTED if coordinator else _UNSAID
        return _aborted_before(told, coordinator, unsure, waiting, rebuild)
    may_have = f"{records} may have been committed, and would be hidden on {waiting}"
    if "unknown" in by_fate:
        because = f"{_told(by_fate['unknown'])}: how it ended cannot be known"
        return Ending("unknown", False, because, may_have, rebuild)
    if "unreadable" in by_fate:
        return _silent_replica(opened, coordinator, _told(by_fate["unreadable"]), may_have)
    if coordinator is None:
        return _unknown_producer(opened.age, complete, hidden_by, may_have)
    return _open_everywhere(opened, coordinator, complete, may_have)


def _aborted_before(
    told: str, coordinator: Coordinated | None, unsure: str | None, waiting: str, rebuild: str
) -> Ending:
    """To a replica that missed the marker, what the producer writes now is the same transaction."""
    but = unsure
    if coordinator is not None and _is_at_it(coordinator) and coordinator.state != "PrepareAbort":
        but = f"{_coordinates(coordinator)}, and says {coordinator.state}"
    if but is not None:
        loss = f"what its producer writes now may be committed, and would be hidden on {waiting}"
        return Ending("aborted", False, f"{told}; but {but}", loss, rebuild)
    advice = f"an abort does no harm, it was aborted before; or {rebuild}"
    return Ending("aborted", True, told, None, advice)


def _silent_replica(
    opened: Opened, coordinator: Coordinated | None, silent: str, may_have: str
) -> Ending:
    """All that answer have it open. One that does not could only forbid an abort, never a wait."""
    if coordinator is None:
        return _not_asked(silent, may_have, "ask again when it is up")
    if _is_at_it(coordinator):
        ending = _under_way(opened, coordinator, may_have)
        return replace(ending, because=f"{ending.because}; {silent}", complete=False)
    because = f"{silent}; {_coordinates(coordinator)}, and says {coordinator.state}"
    return _not_asked(because, may_have, "ask again when it is up")


def _not_asked(because: str, may_have: str, advice: str) -> Ending:
    return Ending("not asked", False, because, may_have, advice, complete=False)


def _unknown_producer(age: Age, complete: bool, hidden_by: str | None, may_have: str) -> Ending:
    """No coordinator tells us of it; but they tell only of ids that we may DESCRIBE.

    Age does not make up for that: a producer that replays old events dates its records so, and one
    whose commit was decided may wait for its marker longer than any transaction may take.
    """
    if not complete:
        return _not_asked(_UNSAID, may_have, _WHEN_ALL_ARE_UP)
    because = "every replica has it open, and no coordinator tells us of its producer"
    loss = f"its producer may still be at work; {may_have}"
    if age.is_over:
        if hidden_by is not None:
            because += f"; but {hidden_by}, and one may hide it from us"
            advice = f"allow that and ask again, or {_BY_FORCE}"
            return _not_asked(because, loss, advice)
        advice = "abort it: nobody else will end it"
        return Ending("hanging", True, because, None, advice)
    if age.is_in_future:
        because += "; its records are dated in the future, so how old it is cannot be known"
        return Ending("unknown", False, because, loss, _BY_FORCE)
    because += (
        f"; it was written to less than {age.longest_ms / 60_000:g} minutes ago, the longest that "
        "one may take, and its coordinator may be hidden from us"
    )
    left_ms = age.last_ms + age.longest_ms - age.now_ms
    advice = f"ask again in {-(-left_ms // 60_000)} min"
    return Ending("too young", False, because, loss, advice)


def _open_everywhere(
    opened: Opened, coordinator: Coordinated, complete: bool, may_have: str
) -> Ending:
    """A coordinator that was replaced does not know what its producer has begun since."""
    said = _coordinates(coordinator)
    if _is_at_it(coordinator):
        return _under_way(opened, coordinator, may_have)
    if coordinator.state in ("PrepareCommit", "CompleteCommit"):
        as_it_would = (
            ", in the epoch that its marker would have" if coordinator.epoch > opened.epoch else ""
        )
        because = (
            f"{said}, which says {coordinator.state}, and the last one was committed{as_it_would}: "
            "if it was this one, its marker was lost on all replicas"
        )
        advice = "ask whoever runs the producer; if it was not committed, use --force"
        return Ending("unknown", False, because, may_have, advice)
    because = f"every replica has it open, and {said}, which says {coordinator.state}"
    if not complete:
        return _not_asked(f"{because}; but {_CONTESTED}", may_have, _WHEN_ALL_ARE_UP)
    return Ending("hanging", True, because, None, "abort it: nobody else will end it")


def _under_way(opened: Opened, coordinator: Coordinated, may_have: str) -> Ending:
    because = f"{_coordinates(coordinator)}, and says {coordinator.state}"
    advice = "wait: its producer ends it, or its coordinator when its timeout is over"
    if _is_overdue(coordinator, opened.age.now_ms):
        because += ", though its timeout is long over"
        advice = (
            f"restart broker {coordinator.node}: its coordinator should have ended it; do not "
            "abort it in one partition while it may still commit in others"
        )
    return Ending("under way", False, because, may_have, advice)


def _is_at_it(coordinator: Coordinated) -> bool:
    return coordinator.state in UNDER_WAY and coordinator.has_partition


def _coordinates(coordinator: Coordinated) -> str:
    return f"broker {coordinator.node} coordinates {coordinator.transactional_id}"


def _is_overdue(coordinator: Coordinated, now_ms: int) -> bool:
    if coordinator.started_ms < 0:
        return False
    return now_ms - coordinator.started_ms > PATIENCE * max(coordinator.timeout_ms, 60_000)


def _told(known: Sequence[Known]) -> str:
    return "; ".join(f"broker {each.node} {each.how}" for each in known)


def _brokers(known: Sequence[Known]) -> str:
    nodes = [str(each.node) for each in known]
    return ("broker " if len(nodes) == 1 else "brokers ") + ", ".join(nodes) if nodes else ""
