"""Mistakes in who may forget what: each is a wording of the protocol that looks right and is not.

The same as in `letters.Faults`, where every small history is searched, but in the machines and
nodes that a broker runs. Where a machine's own `check` would notice, it is silenced: what counts is
whether the mistake shows from outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sexton.log.checkpoints import EpochStart
from sexton.log.cleaner import Prepared
from sexton.log.incoming import Marker, Placed
from sexton.log.partition import PartitionLog
from sexton.log.producers import EndedTransaction, Producers
from sexton.machines import brokers as broker_machine
from sexton.machines import compaction, replication
from sexton.machines.compaction import Follower, Leader, Progress, Removable
from sexton.machines.markers import Markers
from sexton.node import fetch
from sexton.node.cleaning import Cleaning
from sexton.node.coordination import Coordination
from sexton.node.replica import Leading, Replica
from sexton.protocol.messages.fetch import FetchPartition
from tests.patching import Patch
from tests.simulation.planted.planting import plant


def _silence(patch: Patch) -> None:
    patch(Leader, "check", lambda _self: None)


# ── which replicas count ──


@plant
def minimum_over_isr(patch: Patch) -> None:
    """MTRO and MXRO are the minima over the ISR, not over all assigned replicas."""
    _silence(patch)

    def collect_due(self: Coordination) -> None:
        for replica in self._replicas.by_partition.values():
            role = replica.role
            if isinstance(role, Leading) and role.compaction is not None:
                isr = role.replication.membership.isr
                _propose_over(replica, role, [n for n in isr if n != replica.site.node])
        right(self)

    right = patch(Coordination, "_collect_due", collect_due)


def _propose_over(replica: Replica, role: Leading, nodes: list[int]) -> None:
    talk = role.compaction
    assert talk is not None
    if any(node not in talk.reports for node in nodes):
        return
    raised = talk.proposed.raised_to(_lowest(talk, nodes))
    if raised != talk.proposed:
        talk.proposed = raised
        replica.compaction_effects(role, [compaction.Propose(raised)])


def _lowest(talk: Leader, nodes: list[int]) -> Removable:
    known = [talk.progress, *(talk.reports[node].progress for node in nodes)]
    return Removable(min(p.mcco for p in known), min(p.mxfo for p in known))


@plant
def silence_counts_as_done(patch: Patch) -> None:
    """A replica that has not reported in this term is left out of the minimum."""
    _silence(patch)

    def advance(self: Leader) -> list[compaction.LeaderEffect]:
        known = [node for node in self._others() if node in self.reports]
        raised = self.proposed.raised_to(_lowest(self, known))
        if raised == self.proposed:
            return []
        self.proposed = raised
        return [compaction.Propose(raised)]

    patch(Leader, "_advance", advance)


@plant
def kept_reports(patch: Patch) -> None:
    """What an earlier incarnation of a replica has reported still counts for the present one."""
    _silence(patch)

    def handle(self: Leader, event: compaction.LeaderEvent) -> list[compaction.LeaderEffect]:
        before = dict(self.reports)
        effects: list[compaction.LeaderEffect] = right(self, event)
        for node, kept in before.items():
            now = self.reports.get(node)
            if node in self.members and (now is None or now.session != kept.session):
                session = kept.session if now is None else now.session
                self.reports[node] = replace(kept, session=session)
        match event:
            case compaction.Report(node, _term, _session, progress) if node in before:
                best = compaction._further(before[node].progress, progress)
                self.reports[node] = replace(self.reports[node], progress=best)
        return [*effects, *self._advance()]

    right = patch(Leader, "handle", handle)


# ── what a replica says of itself ──


@plant
def stable_offset_as_mxfo(patch: Patch) -> None:
    """MXFO is the last stable offset, though settled data may still be transactional."""
    _silence(patch)

    def note(replica: Replica) -> None:
        talk, stable = replica.talk, replica.log.last_stable_offset
        talk.progress = compaction._further(talk.progress, Progress(0, stable))

    def collect(self: Coordination, caller: object, request: Any) -> None:
        for partition, _ in request.collects:
            if partition in self._replicas.by_partition:
                note(self._replicas.by_partition[partition])
        right_collect(self, caller, request)

    def collect_due(self: Coordination) -> None:
        for replica in self._replicas.by_partition.values():
            if isinstance(replica.role, Leading):
                note(replica)
        right_due(self)

    right_collect = patch(Coordination, "collect", collect)
    right_due = patch(Coordination, "_collect_due", collect_due)


@plant
def added_replica_is_clean(patch: Patch) -> None:
    """A replica that starts empty counts as clean up to the end of its leader's log."""
    _silence(patch)

    def register(self: Coordination, partition: Any, event: compaction.Register) -> object:
        told = right(self, partition, event)
        if isinstance(told, compaction.Discard):
            end = self._replicas.by_partition[partition].log.end_offset
            return replace(told, progress=Progress(end, end))
        return told

    right = patch(Coordination, "_register", register)


@plant
def reported_before_sync(patch: Patch) -> None:
    """A pass is written down as done before its segments are in place, and nothing is synced."""
    swapping = False

    def prepared(self: Cleaning, replica: Replica, result: object) -> None:
        nonlocal swapping
        if isinstance(result, Prepared) and not result.is_stale:
            replica.cleaned(result.cleaned.end)
            swapping = True
        try:
            right(self, replica, result)
        finally:
            swapping = False

    def flush(self: PartitionLog, now_ms: int) -> None:
        if not swapping:
            right_flush(self, now_ms)

    right = patch(Cleaning, "_prepared", prepared)
    right_flush = patch(PartitionLog, "flush", flush)


@plant
def trusted_disk(patch: Patch) -> None:
    """A replica is accepted with whatever is on its disk: its own checkpoint says it is fine."""
    _silence(patch)

    def register(self: Leader, event: compaction.Register) -> list[compaction.LeaderEffect]:
        claimed = Progress(1 << 60, 1 << 60)
        effects: list[compaction.LeaderEffect] = right(self, replace(event, progress=claimed))
        report = self.reports.get(event.node)
        if report is not None and report.progress == claimed:
            self.reports[event.node] = replace(report, progress=event.progress)
        return [e for e in effects if not isinstance(e, compaction.Propose)]

    right = patch(Leader, "_register", register)
    patch(broker_machine, "is_fit", lambda *_given, **_named: True)


# ── who leads, and since when ──


@plant
def unreplicated_marker_resolves(patch: Patch) -> None:
    """A transaction counts as ended once its marker is here, above the high watermark too."""

    def end(self: Producers, header: object, marker: object) -> EndedTransaction | None:
        ended: EndedTransaction | None = right(self, header, marker)
        self._unreplicated = {}
        return ended

    right = patch(Producers, "_end", end)


@plant
def late_announcements_believed(patch: Patch) -> None:
    """An announcement counts whenever it arrives, also one of an earlier term."""

    def handle(self: Follower, event: compaction.FollowerEvent) -> list[compaction.FollowerEffect]:
        if isinstance(event, compaction.Announce):
            return self._learn(event.removable)
        effects: list[compaction.FollowerEffect] = right(self, event)
        return effects

    right = patch(Follower, "handle", handle)


@plant
def unclean_without_discard(patch: Patch) -> None:
    """After committed records were lost the others keep their logs."""

    def ignorant(self: Leader) -> None:
        self.lost_in = -1
        right(self)

    right = patch(Leader, "__post_init__", ignorant)


@plant
def minima_before_the_controller(patch: Patch) -> None:
    """A leader uses and announces new minima before the controller has written them down."""

    def advance(self: Leader) -> list[compaction.LeaderEffect]:
        effects: list[compaction.LeaderEffect] = right(self)
        return [*effects, *self._agreed(self.proposed)]

    right = patch(Leader, "_advance", advance)


@plant
def unfit_leader(patch: Patch) -> None:
    """The last of the ISR leads with whatever disk it comes back with."""
    patch(broker_machine, "is_fit", lambda *_given, **_named: True)


@plant
def joining_do_not_vouch(patch: Patch) -> None:
    """The high watermark does not wait for those who are about to join the ISR."""

    def advance(self: replication.Leader) -> list[replication.Effect]:
        proposed, self.proposed = self.proposed, None
        try:
            effects: list[replication.Effect] = right(self)
            return effects
        finally:
            self.proposed = proposed

    right = patch(replication.Leader, "_advance", advance)


@plant
def earlier_session_fetches(patch: Patch) -> None:
    """A fetch that was sent before its log was emptied counts for the log that is there now.

    Either of two rules is enough to stop it, the session or the broker epoch: both are left out.
    """

    def registered(replica: Replica, _role: Leading, node: int, _asked: FetchPartition) -> bool:
        return node in replica.record.replicas

    def ask_for(self: replication.Leader, isr: tuple[int, ...]) -> replication.AlterIsr:
        asked: replication.AlterIsr = right(self, isr)
        return replace(asked, broker_epochs=())

    patch(fetch, "registered", registered)
    right = patch(replication.Leader, "_ask_for", ask_for)


# ── markers that arrive late ──


@plant
def late_markers_believed(patch: Patch) -> None:
    """A marker ends whatever is open, also if it is another copy of one that has been written."""
    patch(Markers, "is_late", lambda _self, _producer_id, _stamp: False)


@plant
def epochs_of_what_is_left(patch: Patch) -> None:
    """An epoch begins with the first of its batches that comes, whatever was cleaned before it."""

    def write(
        self: PartitionLog,
        data: bytes,
        headers: list[Placed],
        markers: list[Marker],
        now_ms: int,
        noted: Sequence[EpochStart] = (),
    ) -> None:
        latest = self.epochs.latest
        right(self, data, headers, markers, now_ms, noted)
        first: dict[int, int] = {}
        for _position, header in headers:
            first.setdefault(header.partition_leader_epoch, header.base_offset)
        self.epochs.entries = [
            EpochStart(epoch, first.get(epoch, start) if epoch > latest else start)
            for epoch, start in self.epochs.entries
        ]

    right = patch(PartitionLog, "_write", write)
