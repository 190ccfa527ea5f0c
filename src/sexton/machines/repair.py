"""One partition with wrong replicas: what is the next step to make them right?

A replica is rebuilt by taking it away and giving it back: it starts empty then, and copies all from
the leader. Around that there is some care to take:

    a right replica leads   so that a right log is copied; it stays first in the order of replicas
    a copy more, if need be a broker that has no replica lends its room for the time
    away                    the wrong replica is taken from the partition ...
    gone                    ... and its broker has deleted it: a replica that was away for so short
                            a time that its broker did not notice would keep its log
    back                    it is given back, copies, joins the ISR
    as it was               the order of replicas, and the broker that lent its room

`next_step` looks at what is noted and at what is seen now, and names one step; the shell carries it
out, looks again and asks again. Each step may be repeated and none relies on an earlier one having
been seen to its end, so whoever dies between two steps is replaced by anybody who has the notes.

Only two things cannot be seen, and are noted: that the log of a replica that is away was deleted
(`emptied`), and that a replica has been filled (`rebuilt`). While one is being filled the leader
must stay: another leader may have cleaned further, and a log that is copied from two of them can
hold a value from one and lack its tombstone, which the other had removed. If it did change, the
replica is taken away again.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import Final

from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition

FEWEST_COPIES: Final = 2  # in sync, at any time; a lone one has nobody to be compared with
MOST_FILLINGS: Final = 3  # of one replica, if the leader keeps changing


# ── what is noted and what is seen ──


@dataclass(frozen=True, slots=True)
class Emptied:
    """A replica whose log was deleted, and who led at that time."""

    node: int
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Job:
    """One partition's repair, as it is noted."""

    partition: TopicPartition
    replicas: tuple[int, ...]  # as they were, and will be again
    wrong: tuple[int, ...]
    sources: tuple[int, ...]
    min_insync: int
    helper: int | None = None  # the broker that holds a copy during the repair
    emptied: Emptied | None = None
    rebuilt: tuple[int, ...] = ()
    fillings: int = 0  # of the replica that is under way
    done: bool = False

    @property
    def left(self) -> tuple[int, ...]:
        return tuple(node for node in self.wrong if node not in self.rebuilt)


@dataclass(frozen=True, slots=True)
class Sight:
    """The partition as it is now."""

    leader: int  # -1: nobody
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    moving: bool  # a reassignment is under way
    brokers: frozenset[int]  # that are up
    holding: frozenset[int] = field(default_factory=frozenset)  # brokers that still have its log
    min_insync: int | None = None  # of now; None: as it was when the job was planned


# ── steps ──


@dataclass(frozen=True, slots=True)
class Lead:
    """Have a right replica lead: make it the preferred one and elect it."""

    node: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """Assign the partition to these replicas."""

    replicas: tuple[int, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do but to look again."""

    why: str
    node: int | None = None  # the replica that is waited for


@dataclass(frozen=True, slots=True)
class Noted:
    """Remember this, durably, before anything else is done."""

    job: Job
    why: str


@dataclass(frozen=True, slots=True)
class Stop:
    """It cannot go on; somebody has to do something about it."""

    why: str
    hint: str


@dataclass(frozen=True, slots=True)
class Done:
    pass


Step = Lead | Move | Wait | Noted | Stop | Done


def next_step(job: Job, sight: Sight) -> Step:
    """What is to be done now; `Done` when all is as it was and every wrong replica is rebuilt."""
    if strangers := _strangers(job, sight):
        who = ", ".join(map(str, sorted(strangers)))
        return Stop(
            f"somebody else has assigned it to {who} meanwhile",
            "let that finish, then run it again: it is judged again",
        )
    if sight.leader < 0:
        return Wait("nobody leads it")
    if not job.left:
        return _tidy(job, sight)
    if sight.leader not in job.sources:
        return _lead(job, sight)
    node = job.left[0]
    is_away = node not in sight.replicas or (job.emptied is not None and job.emptied.node == node)
    # Who is away already is given back first: if the helper has died, too few are in sync.
    if job.helper is not None and job.helper not in sight.isr and not is_away:
        if job.helper not in sight.replicas:
            replicas = _ordered(job, sight, (*sight.replicas, job.helper))
            return Move(replicas, f"broker {job.helper} holds a copy during the repair")
        return Wait(f"broker {job.helper} copies", job.helper)
    return _rebuild(job, sight, node)


def is_overtaken(job: Job, sight: Sight) -> bool:
    """Has somebody else moved the partition, and is that over? Then the job fits no more."""
    return bool(_strangers(job, sight)) and not sight.moving


def _strangers(job: Job, sight: Sight) -> set[int]:
    return {*sight.replicas} - {*job.replicas, job.helper}


def _rebuild(job: Job, sight: Sight, node: int) -> Step:
    if job.emptied is None or job.emptied.node != node:
        return _take_away(job, sight, node)
    if node not in sight.replicas:
        if node not in sight.brokers:
            return Wait(f"broker {node} is down", node)
        back = _ordered(job, sight, (*sight.replicas, node))
        return Move(back, f"broker {node} starts over as a copy of broker {sight.leader}")
    if sight.leader_epoch < job.emptied.leader_epoch:
        return Wait("what brokers say about it is out of date")
    if node not in sight.isr or sight.moving or node not in sight.holding:
        return Wait(f"broker {node} copies from broker {sight.leader}", node)
    if not _same_leader(job.emptied, sight) and job.fillings < MOST_FILLINGS:
        again = replace(job, emptied=None, fillings=job.fillings + 1)
        return Noted(again, f"the leader changed while broker {node} copied: it copies again")
    rebuilt = replace(job, emptied=None, rebuilt=(*job.rebuilt, node), fillings=0)
    return Noted(rebuilt, f"broker {node} is rebuilt")


def _same_leader(then: Emptied, now: Sight) -> bool:
    """All the time: a replica that is added may begin one epoch, there and back are two."""
    return now.leader == then.leader and now.leader_epoch - then.leader_epoch <= 1


def _take_away(job: Job, sight: Sight, node: int) -> Step:
    if node in sight.replicas:
        if sight.moving:
            return Wait("a reassignment is under way")
        if node not in sight.brokers:
            return Wait(f"broker {node} is down", node)
        if not may_go(job, sight, node):
            return Wait(_too_few(job, sight, node))
        left = tuple(each for each in sight.replicas if each != node)
        return Move(_ordered(job, sight, left), f"broker {node} gives up its copy")
    if sight.moving or node in sight.holding:
        return Wait(f"broker {node} deletes its copy", node)
    emptied = Emptied(node, sight.leader, sight.leader_epoch)
    return Noted(replace(job, emptied=emptied), f"broker {node} has deleted its copy")


def may_go(job: Job, sight: Sight, node: int) -> bool:
    """Are enough others in sync?"""
    return len({*sight.isr} - {node}) >= fewest_in_sync(job, sight)


def fewest_in_sync(job: Job, sight: Sight) -> int:
    wanted = job.min_insync if sight.min_insync is None else sight.min_insync
    return max(wanted, FEWEST_COPIES)


def _too_few(job: Job, sight: Sight, node: int) -> str:
    others = len({*sight.isr} - {node})
    return (
        f"without broker {node} only {others} would be in sync, "
        f"and {fewest_in_sync(job, sight)} must be"
    )


def _lead(job: Job, sight: Sight) -> Step:
    able = [node for node in job.sources if node in sight.isr]
    if not able:
        who = ", ".join(map(str, job.sources))
        return Wait(f"no right replica is in sync ({who})")
    if sight.moving:
        return Wait("a reassignment is under way")
    node = able[0]
    return Lead(node, (node, *(each for each in sight.replicas if each != node)))


def _ordered(job: Job, sight: Sight, members: tuple[int, ...]) -> tuple[int, ...]:
    """The leader first, so that nobody elects another; then as it was; then who helps out."""
    helpers = () if job.helper is None else (job.helper,)
    rest = [node for node in (*job.replicas, *helpers) if node in members]
    return (sight.leader, *(node for node in rest if node != sight.leader))


def _tidy(job: Job, sight: Sight) -> Step:
    if sight.replicas != job.replicas:
        missing = [node for node in job.replicas if node not in sight.isr]
        if missing and {*missing} <= {*sight.replicas}:
            return Wait(f"broker {missing[0]} is not in sync", missing[0])
        return Move(job.replicas, "the replicas are put back in their old order")
    if sight.moving:
        return Wait("a reassignment is under way")
    return Done()


# ── before it begins ──


def plan_job(
    partition: TopicPartition,
    sight: Sight,
    wrong: tuple[int, ...],
    sources: tuple[int, ...],
    min_insync: int,
    racks: dict[int, str | None],
) -> Job | Stop:
    """A job, with a helper if one is needed; or why there cannot be one."""
    able = tuple(node for node in sources if node in sight.isr)
    if not able:
        who = ", ".join(map(str, sources)) or "none"
        return Stop(
            f"the right replica ({who}) is not in sync, and cannot lead without loss",
            "bring it back into the ISR first; do not elect it uncleanly",
        )
    if sight.moving:
        hint = "wait for it, or cancel it: `sexton cluster reassign --cancel`"
        return Stop("a reassignment is under way", hint)
    down = [node for node in wrong if node not in sight.brokers]
    if down:
        return Stop(f"broker {down[0]} is down, and could not copy again", "start it first")
    job = Job(partition, sight.replicas, wrong, able, min_insync)
    if all(may_go(job, sight, node) for node in wrong):
        return job
    free = sorted(sight.brokers - {*sight.replicas})
    more = replace(sight, isr=(*sight.isr, -1))  # with somebody's help
    if not free or not all(may_go(job, more, node) for node in wrong):
        return Stop(
            _too_few(job, sight, wrong[0]) + ("" if free else "; no broker is free to help out"),
            "add a broker, or bring the other replicas back into the ISR",
        )
    rack = racks.get(wrong[0])
    return replace(job, helper=min(free, key=lambda node: (racks.get(node) != rack, node)))


def planned_steps(job: Job, sight: Sight) -> list[str]:
    """What will be done, for people to read before it is."""
    steps = []
    leader = sight.leader
    if leader not in job.sources and job.left:
        leader = next((node for node in job.sources if node in sight.isr), job.sources[0])
        steps.append(f"elect broker {leader}, whose copy is right")
    if job.helper is not None and job.helper not in sight.replicas and job.left:
        steps.append(f"have broker {job.helper} hold a copy meanwhile, so that enough are in sync")
    for node in job.left:
        if job.emptied is None or job.emptied.node != node:
            steps.append(f"remove broker {node}'s copy, and wait until it is deleted")
        steps.append(f"assign it again, empty: broker {node} copies from broker {leader}")
    if job.helper is not None:
        steps.append(f"remove broker {job.helper}'s copy again")
    if steps:
        old = ",".join(map(str, job.replicas))
        steps.append(f"leave the replicas as they were: {old}")
    return steps
