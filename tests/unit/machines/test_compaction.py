"""The conversation about what may be forgotten, told as text: see testdata/compaction_*.txt."""

from __future__ import annotations

from pathlib import Path

from sexton.machines.compaction import (
    Accept,
    Agreed,
    Announce,
    Cleaned,
    Collect,
    Discard,
    DiscardLog,
    Follow,
    Follower,
    FollowerEvent,
    Leader,
    LeaderEvent,
    LeaveIsr,
    MembersChanged,
    Persist,
    Progress,
    Propose,
    Refuse,
    Register,
    Removable,
    Report,
    Tick,
)
from tests.datadriven import Case, datadriven, run_file


class Story:
    """Replicas that talk at once, unless the story cuts one off; and what was said."""

    def __init__(self) -> None:
        self.replicas: dict[int, Follower] = {}
        self.members: dict[int, int] = {}
        self.leader: Leader
        self.cut_off: set[int] = set()
        self.held: list[Announce] | None = None  # announcements under way, if the story holds them
        self.said: list[str] = []
        self.lost_in = -1
        self.controller_silent = False

    def run(self, case: Case) -> str:
        self.said = []
        getattr(self, "do_" + case.command.replace("-", "_"))(case)
        self.leader.check()
        return "\n".join([*self.said, *self._table()])

    def _table(self) -> list[str]:
        rows = []
        for node, replica in sorted(self.replicas.items()):
            leads = node == self.leader.node
            progress = self.leader.progress if leads else replica.progress
            removable = self.leader.removable if leads else replica.removable
            away = " away" if node in self.cut_off else ""
            rows.append(
                f"{node}{'*' if leads else ' '} MCCO {progress.mcco} MXFO {progress.mxfo}"
                f"  MTRO {removable.mtro} MXRO {removable.mxro}{away}"
            )
        return rows

    # ── what a story can say ──

    def do_replicas(self, case: Case) -> None:
        self.members = {int(word): 0 for word in case.words}
        self.replicas = {node: Follower(node, assignment=0) for node in self.members}
        self._lead(min(self.members), term=0)

    def do_cleaned(self, case: Case) -> None:
        node = int(case.words[0])
        done = Cleaned(Progress(case.number("mcco", 0), case.number("mxfo", 0)))
        if node == self.leader.node:
            self._leader(done)
        else:
            self.replicas[node].handle(done)

    def do_collect(self, _case: Case) -> None:
        self._leader(Tick())

    def do_away(self, case: Case) -> None:
        self.cut_off.update(map(int, case.words))

    def do_back(self, case: Case) -> None:
        for node in map(int, case.words):
            self.cut_off.discard(node)
            self._hear(node)

    def do_elect(self, case: Case) -> None:
        node = int(case.words[0])
        if "uncleanly" in case.words:
            self.lost_in = self.leader.term + 1
        old = self.replicas[self.leader.node]
        old.progress, old.removable = self.leader.progress, self.leader.removable
        old.began_in = self.leader.began_in
        self._lead(node, self.leader.term + 1)

    def do_members(self, case: Case) -> None:
        wanted = [int(word) for word in case.words]
        fresh = [node for node in wanted if node not in self.members]
        for node in fresh:
            self.replicas.setdefault(node, Follower(node))
        self.members = {node: self.members.get(node, len(self.said) + 1) for node in wanted}
        for node in set(self.replicas) - set(wanted):
            del self.replicas[node]
        self._leader(MembersChanged(dict(self.members)))
        for node in fresh:
            self._hear(node)

    def do_old_disk(self, case: Case) -> None:
        replica = self.replicas[int(case.words[0])]
        replica.progress = Progress(case.number("mcco"), case.number("mxfo", 0))

    def do_hold(self, _case: Case) -> None:
        self.held = []

    def do_release(self, _case: Case) -> None:
        held, self.held = self.held or [], None
        for message in held:
            self._tell(message.node, message)

    def do_controller(self, case: Case) -> None:
        self.controller_silent = case.words[0] == "silent"

    def do_register_again(self, case: Case) -> None:
        """A call of an earlier session arrives late, with what was true then."""
        node, replica = int(case.words[0]), self.replicas[int(case.words[0])]
        session = case.number("session", replica.session)
        progress = Progress(case.number("mcco"), case.number("mxfo", 0))
        late = Register(node, replica.term, session, replica.assignment, replica.began_in, progress)
        self._leader(late)

    # ── how it is carried out ──

    def _lead(self, node: int, term: int) -> None:
        chosen = self.replicas[node]
        self.leader = Leader(
            node, term, dict(self.members), chosen.progress, chosen.removable, self.lost_in,
            chosen.began_in,
        )  # fmt: skip
        self.leader.start(1_000_000, self.leader.removable)
        for other in self.members:
            if other != node and other not in self.cut_off:
                self._hear(other)

    def _hear(self, node: int) -> None:
        follow = Follow(self.leader.term, self.leader.node, self.members[node])
        self._tell(node, follow)

    def _tell(self, node: int, event: FollowerEvent) -> None:
        if node in self.cut_off or node not in self.replicas or node == self.leader.node:
            return
        for effect in self.replicas[node].handle(event):
            if isinstance(effect, Register | Report):
                self._leader(effect)
            elif isinstance(effect, DiscardLog):
                self.said.append(f"{node} discards its log")

    def _leader(self, event: LeaderEvent) -> None:
        for effect in self.leader.handle(event):
            match effect:
                case Announce() if self.held is not None:
                    self.held.append(effect)
                case Announce() | Accept() | Discard() | Refuse() | Collect():
                    self._tell(effect.node, effect)
                case Propose(removable) if not self.controller_silent:
                    self._leader(Agreed(removable))
                case LeaveIsr(node):
                    self.said.append(f"{node} leaves the ISR")
                case Persist() | Propose():
                    pass


@datadriven(__file__, "testdata/compaction_*.txt")
def test_compaction(path: Path) -> None:
    run_file(path, Story().run)


def test_after_a_loss_nothing_is_known_of_offsets_that_are_given_again() -> None:
    """The log that counts from now on ends at 6; what was agreed beyond was about other records."""
    known = (Progress(19, 18), Removable(15, 4))
    leader = Leader(1, 5, {1: 0, 2: 1}, *known, lost_in=5, began_in=-1)
    effects = leader.start(log_end=6, known=Removable(15, 4))
    assert (leader.progress, leader.removable) == (Progress(6, 6), Removable(6, 4))
    assert effects == [Persist(Progress(6, 6), Removable(6, 4), began_in=5)]
    leader.check()
    # Negative control: once that is settled, its own end says nothing against what was agreed.
    later = Leader(1, 6, {1: 0, 2: 1}, *known, lost_in=5, began_in=5)
    assert later.start(6, Removable(15, 4)) == [] and later.removable == Removable(15, 4)


def test_minima_of_before_an_earlier_loss_are_proposed_before_anybody_relies_on_them() -> None:
    """It was away when records were lost first; the controller began with nothing then."""
    leader = Leader(1, 9, {1: 0, 2: 1}, Progress(19, 18), Removable(15, 4), lost_in=9, began_in=-1)
    effects = leader.start(log_end=20, known=Removable(0, 2))
    persisted = Persist(Progress(19, 18), Removable(0, 2), began_in=9)
    assert effects == [persisted, Propose(Removable(15, 4))]
    (discard,) = [
        effect
        for effect in leader.handle(Register(2, 9, 1, 1, -1, Progress(30, 30)))
        if isinstance(effect, Discard)
    ]
    assert discard.progress == Progress(15, 4) and discard.removable == Removable(0, 2)
    leader.handle(Agreed(Removable(15, 4)))
    assert leader.removable == Removable(15, 4)
    leader.check()
