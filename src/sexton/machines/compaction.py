"""When may a replica forget a tombstone or a marker?

When no replica can bring back what it buried. Each replica knows two offsets about its own log, and
the leader works out two for the group; all four are exclusive upper bounds:

    MCCO   maximum cleanly compacted offset: a durable pass left at most one committed record per
           key below it, and no aborted one
    MTRO   maximum tombstone removal offset: the lowest MCCO of all assigned replicas
    MXFO   maximum transaction-free offset: below it this log has no transactional data whose
           outcome a marker would have to tell
    MXRO   maximum transaction-marker removal offset: the lowest MXFO of all assigned replicas

    follower ──Register──▶ leader       before its first fetch, in every term and every session
    follower ◀──Collect─── leader       every now and then: how far are you? (with MTRO and MXRO)
    follower ──Report────▶ leader
                           leader ──Propose──▶ controller      when the minima have moved
                           leader ◀──Agreed─── controller      it has written them down
    follower ◀──Announce── leader

Why it is safe. Below MTRO every replica's log has at most the tombstone itself left of a deleted
key, so none can serve the value after the tombstone is gone. A replica that copies from the leader
later copies from a log that is clean up to there. That holds as long as no replica's log goes back
behind what the group relied on, and each rule closes one way in which it could:

    * A replica that has not registered in this term counts as unknown: silence holds the group.
    * Reports replace one another and die with the term: an old one may be about a lost disk.
    * A replica that registers below MTRO or MXRO has an older disk than it reported: it starts
      empty.
    * An empty log begins with the leader's MTRO and MXRO, for what it copies is that clean.
    * An announcement counts in its own term only; MTRO and MXRO never move back.
    * The controller knows of new minima before anybody acts on them: it must not elect a replica
      that is below (`may_lead`).
    * A follower's own offsets rise by its own cleaning only, never by an announcement.
    * After committed records were lost, every other replica discards and copies anew, even one that
      comes back terms later: the controller remembers the term.

Nothing here delays a write. An absent replica holds the minima where they are: safety is promised,
cleaning up is best effort.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import assert_never

from sexton.base.lazy_dataclass import dataclass

NodeId = int
Term = int  # the leader epoch
Session = int  # counts a follower's registrations; an answer to an earlier one is stale


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one replica's log is clean."""

    mcco: int = 0
    mxfo: int = 0

    def covers(self, removable: Removable) -> bool:
        return self.mcco >= removable.mtro and self.mxfo >= removable.mxro


@dataclass(frozen=True, slots=True)
class Removable:
    """Below which offsets the group may forget."""

    mtro: int = 0
    mxro: int = 0

    def raised_to(self, other: Removable) -> Removable:
        return Removable(max(self.mtro, other.mtro), max(self.mxro, other.mxro))


# ── what the leader hears ──


@dataclass(frozen=True, slots=True)
class Register:
    node: NodeId
    term: Term
    session: Session
    assignment: int  # its number: a replica that was removed and added again has another one
    began_in: Term  # the term in which this log last started empty; -1: before anyone can tell
    progress: Progress


@dataclass(frozen=True, slots=True)
class Report:
    node: NodeId
    term: Term
    session: Session
    progress: Progress


@dataclass(frozen=True, slots=True)
class MembersChanged:
    members: dict[NodeId, int]  # every assigned replica, with the number of its assignment


@dataclass(frozen=True, slots=True)
class Cleaned:
    """This replica's own pass is durable."""

    progress: Progress


@dataclass(frozen=True, slots=True)
class Agreed:
    """The controller has these minima, durably."""

    removable: Removable


@dataclass(frozen=True, slots=True)
class Tick:
    """Time to ask everyone again."""


LeaderEvent = Register | Report | MembersChanged | Cleaned | Agreed | Tick


# ── what it does ──


@dataclass(frozen=True, slots=True)
class Accept:
    node: NodeId
    term: Term
    session: Session
    removable: Removable


@dataclass(frozen=True, slots=True)
class Discard:
    """Your log is not what the group relied on: start empty, with this as your own progress."""

    node: NodeId
    term: Term
    session: Session
    progress: Progress
    removable: Removable


@dataclass(frozen=True, slots=True)
class Refuse:
    """Not now: another term, or not a member. The follower hears from the controller first."""

    node: NodeId
    session: Session


@dataclass(frozen=True, slots=True)
class Collect:
    node: NodeId
    term: Term
    session: Session
    removable: Removable


@dataclass(frozen=True, slots=True)
class Announce:
    node: NodeId
    term: Term
    removable: Removable


@dataclass(frozen=True, slots=True)
class Propose:
    """Ask the controller to write these minima down; `Agreed` is its answer."""

    removable: Removable


@dataclass(frozen=True, slots=True)
class Persist:
    """Keep this durably before anything that follows is done."""

    progress: Progress
    removable: Removable
    began_in: Term


@dataclass(frozen=True, slots=True)
class LeaveIsr:
    """Take this replica out of the ISR before the next effect: an empty log must not lead."""

    node: NodeId


LeaderEffect = Accept | Discard | Refuse | Collect | Announce | Propose | Persist | LeaveIsr


@dataclass(frozen=True, slots=True)
class _Reported:
    session: Session
    progress: Progress


@dataclass(slots=True)
class Leader:
    """One term of one partition's leader."""

    node: NodeId
    term: Term
    members: dict[NodeId, int]
    progress: Progress  # its own
    removable: Removable  # its own, from before: a missed distribution is harmless
    lost_in: Term = -1  # the last term that began with the loss of committed records
    began_in: Term = -1
    reports: dict[NodeId, _Reported] = field(default_factory=dict)  # of this term only
    proposed: Removable = Removable()  # at least `removable`; nobody may fall below it any more
    heard: dict[NodeId, Session] = field(default_factory=dict)  # the latest session of each member

    def __post_init__(self) -> None:
        self.proposed = self.proposed.raised_to(self.removable)

    def start(self, log_end: int, known: Removable) -> list[LeaderEffect]:
        """The term begins. If records were lost, this log is what counts from now on.

        Offsets from its end on will be given a second time: whatever was known of them, and agreed
        on, was about other records. (Whoever else leads later has copied this log, or has it.)

        This log may be from before an earlier loss, after which others led: then the minima that
        the controller has `known` since are lower. What was agreed on before is proposed once more,
        and not relied on until it is written down again.
        """
        if self.began_in >= self.lost_in:
            return []
        mine, group = self.progress, self.removable
        self.progress = Progress(min(mine.mcco, log_end), min(mine.mxfo, log_end))
        self.proposed = Removable(min(group.mtro, log_end), min(group.mxro, log_end))
        self.removable = Removable(
            min(self.proposed.mtro, known.mtro), min(self.proposed.mxro, known.mxro)
        )
        self.began_in = self.term
        persist = Persist(self.progress, self.removable, self.began_in)
        return [persist] if self.proposed == self.removable else [persist, Propose(self.proposed)]

    def handle(self, event: LeaderEvent) -> list[LeaderEffect]:
        match event:
            case Register():
                return self._register(event)
            case Report(node, term, session, progress):
                known = self.reports.get(node)
                if term != self.term or known is None or known.session != session:
                    return []  # about a session that is over
                self.reports[node] = _Reported(session, progress)
                return self._advance()
            case MembersChanged(members):
                self.reports = {
                    node: report
                    for node, report in self.reports.items()
                    if node in members and members[node] == self.members.get(node)
                }
                self.members = members
                return self._advance()
            case Cleaned(progress):
                self.progress = _further(self.progress, progress)
                persist = Persist(self.progress, self.removable, self.began_in)
                return [persist, *self._advance()]
            case Agreed(removable):
                return self._agreed(removable)
            case Tick():
                return self._ask_everyone()
            case _:
                assert_never(event)

    def _register(self, event: Register) -> list[LeaderEffect]:
        node, session = event.node, event.session
        if event.term != self.term or node not in self.members:
            return [Refuse(node, session)]
        known = self.reports.get(node)
        if known is not None and known.session == session:
            return [Accept(node, self.term, session, self.removable)]  # the call came twice
        if session <= self.heard.get(node, -1):
            return [Refuse(node, session)]  # late: its log may have been discarded since
        self.heard[node] = session
        self.reports.pop(node, None)  # whatever it said before is about another session
        stale = event.assignment != self.members[node] or event.began_in < self.lost_in
        if stale or not event.progress.covers(self.proposed):
            # What it will copy is as clean as this log, which is clean up to what was proposed.
            inherited = Progress(self.proposed.mtro, self.proposed.mxro)
            discard = Discard(node, self.term, session, inherited, self.removable)
            return [LeaveIsr(node), discard]
        self.reports[node] = _Reported(session, event.progress)
        return [Accept(node, self.term, session, self.removable), *self._advance()]

    def _advance(self) -> list[LeaderEffect]:
        """Proposes higher minima if every assigned replica has reported in this term."""
        if any(node not in self.reports for node in self._others()):
            return []
        known = [self.progress, *(self.reports[node].progress for node in self._others())]
        lowest = Removable(min(p.mcco for p in known), min(p.mxfo for p in known))
        raised = self.proposed.raised_to(lowest)
        if raised == self.proposed:
            return []
        self.proposed = raised
        return [Propose(raised)]

    def _agreed(self, removable: Removable) -> list[LeaderEffect]:
        raised = self.removable.raised_to(removable)
        if raised == self.removable:
            return []
        self.removable = raised
        announced = [Announce(node, self.term, raised) for node in self._others()]
        return [Persist(self.progress, raised, self.began_in), *announced]

    def _ask_everyone(self) -> list[LeaderEffect]:
        collect: list[LeaderEffect] = [
            Collect(node, self.term, report.session, self.removable)
            for node, report in sorted(self.reports.items())
        ]
        if self.proposed != self.removable:
            collect.append(Propose(self.proposed))  # the last proposal may have got lost
        return collect

    def _others(self) -> list[NodeId]:
        return sorted(node for node in self.members if node != self.node)

    def check(self) -> None:
        assert self.progress.covers(self.proposed)
        assert self.proposed.raised_to(self.removable) == self.proposed
        for report in self.reports.values():
            assert report.progress.covers(self.proposed)


# ── the follower ──


@dataclass(frozen=True, slots=True)
class Follow:
    """The controller has named a leader, or this process has started anew."""

    term: Term
    leader: NodeId
    assignment: int


FollowerEvent = Follow | Accept | Discard | Refuse | Collect | Announce | Cleaned


@dataclass(frozen=True, slots=True)
class DiscardLog:
    """Remove every record, durably, before the next effect."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """From now on this log may be filled from the leader."""

    leader: NodeId


FollowerEffect = Register | Report | Persist | DiscardLog | Fetch


@dataclass(slots=True)
class Follower:
    """One replica, as long as somebody else leads. What it keeps is durable but for the session."""

    node: NodeId
    progress: Progress = Progress()
    removable: Removable = Removable()
    began_in: Term = -1
    assignment: int = -1  # the one its log belongs to
    term: Term = -1
    leader: NodeId = -1
    session: Session = 0
    accepted: bool = False

    def handle(self, event: FollowerEvent) -> list[FollowerEffect]:
        match event:
            case Follow(term, leader, assignment):
                if term < self.term:
                    return []
                started_over: list[FollowerEffect] = []
                if assignment != self.assignment:
                    started_over = self._start_empty(assignment)
                self.term, self.leader = term, leader
                return [*started_over, self._register()]
            case Accept(_, term, session, removable) if self._current(term, session):
                self.accepted = True
                return [*self._learn(removable), Fetch(self.leader)]
            case Discard(_, term, session, progress, removable) if self._current(term, session):
                # Until the log is empty it claims nothing: a crash on the way must not leave a
                # log with a progress that is not its own.
                first = Persist(Progress(), self.removable, self.began_in)
                self.progress = progress
                # After a loss the leader's minima may be lower than what was agreed before it.
                self.removable = removable
                self.began_in = term
                return [first, DiscardLog(), self._persist(), self._register()]
            case Collect(_, term, session, removable) if self._current(term, session):
                report = Report(self.node, term, session, self.progress)
                return [*self._learn(removable), report]
            case Announce(_, term, removable) if term == self.term and self.accepted:
                return self._learn(removable)
            case Cleaned(progress):
                self.progress = _further(self.progress, progress)
                return [self._persist()]
            case Accept() | Discard() | Refuse() | Collect() | Announce():
                return []  # of another term or session
            case _:
                assert_never(event)

    def _current(self, term: Term, session: Session) -> bool:
        return term == self.term and session == self.session

    def _start_empty(self, assignment: int) -> list[FollowerEffect]:
        """A new assignment has nothing to do with what an earlier one left on this disk."""
        self.assignment = assignment
        self.progress, self.removable, self.began_in = Progress(), Removable(), -1
        return [DiscardLog(), self._persist()]

    def _register(self) -> Register:
        self.session += 1
        self.accepted = False
        return Register(
            self.node, self.term, self.session, self.assignment, self.began_in, self.progress
        )

    def _learn(self, removable: Removable) -> list[FollowerEffect]:
        raised = self.removable.raised_to(removable)
        if raised == self.removable:
            return []
        self.removable = raised
        return [self._persist()]

    def _persist(self) -> Persist:
        return Persist(self.progress, self.removable, self.began_in)


def may_lead(log_end: int, progress: Progress, known_hw: int, known: Removable) -> bool:
    """Whether a controller may elect this replica, by the highest offsets it has heard of.

    The only member of the ISR may come back with an old image of its disk. Electing it would be a
    clean election by the books, and would bring back what the group has agreed to forget.
    """
    return log_end >= known_hw and progress.covers(known)


def _further(old: Progress, new: Progress) -> Progress:
    """Within one incarnation neither offset moves back."""
    return replace(old, mcco=max(old.mcco, new.mcco), mxfo=max(old.mxfo, new.mxfo))
