"""Which records are safe and who vouches for them, told as text: see testdata/replication_*.txt."""

from __future__ import annotations

from pathlib import Path

from sexton.machines.replication import Advance, AlterIsr, Effect, Leader, Membership
from tests.datadriven import Case, datadriven, run_file


class Story:
    leader: Leader
    now_ms: int = 0
    asked: AlterIsr | None = None
    asked_before: AlterIsr | None = None

    def run(self, case: Case) -> str:
        effects = getattr(self, "do_" + case.command.replace("-", "_"))(case)
        self.leader.check()
        return "\n".join([*map(self._text, effects), self._state()])

    def _text(self, effect: Effect) -> str:
        if isinstance(effect, Advance):
            return f"high watermark {effect.high_watermark}"
        self.asked_before, self.asked = self.asked, effect
        return f"asks for ISR {_list(effect.isr)}"

    def _state(self) -> str:
        leader = self.leader
        proposed = "" if leader.proposed is None else f", asked for {_list(leader.proposed)}"
        isr = _list(leader.membership.isr)
        return f"end {leader.log_end}, high watermark {leader.high_watermark}, ISR {isr}{proposed}"

    def do_lead(self, case: Case) -> list[Effect]:
        isr = tuple(map(int, case.option("isr", "1,2,3").split(",")))
        membership = Membership(5, 10, (1, 2, 3), isr)
        end, high_watermark = case.number("end", 0), case.number("hw", 0)
        self.leader = Leader(1, membership, end, high_watermark, self.now_ms, 30_000)
        return self.leader.start()

    def do_append(self, case: Case) -> list[Effect]:
        return self.leader.appended(self.leader.log_end + int(case.words[0]))

    def do_fetch(self, case: Case) -> list[Effect]:
        node, offset = map(int, case.words)
        return self.leader.fetched(node, offset, self.now_ms)

    def do_seconds(self, case: Case) -> list[Effect]:
        self.now_ms += int(case.words[0]) * 1000
        return self.leader.tick(self.now_ms)

    def do_agreed(self, _case: Case) -> list[Effect]:
        assert self.asked is not None
        old = self.leader.membership
        epoch = self.asked.partition_epoch + 1
        agreed = Membership(old.leader_epoch, epoch, old.replicas, self.asked.isr)
        return self.leader.changed(agreed, self.now_ms)

    def do_refused(self, _case: Case) -> list[Effect]:
        assert self.asked is not None
        return self.leader.refused(self.asked)

    def do_refused_late(self, _case: Case) -> list[Effect]:
        """The proposal before the last one."""
        assert self.asked_before is not None
        return self.leader.refused(self.asked_before)

    def do_record(self, case: Case) -> list[Effect]:
        """Of a change that somebody else has made."""
        isr = tuple(map(int, case.option("isr").split(",")))
        old = self.leader.membership
        new = Membership(old.leader_epoch, old.partition_epoch + 1, old.replicas, isr)
        return self.leader.changed(new, self.now_ms)

    def do_old_record(self, _case: Case) -> list[Effect]:
        old = self.leader.membership
        stale = Membership(old.leader_epoch, old.partition_epoch - 1, old.replicas, (1,))
        return self.leader.changed(stale, self.now_ms)

    def do_starts_over(self, case: Case) -> list[Effect]:
        self.leader.starts_over(int(case.words[0]))
        return []


def _list(nodes: tuple[int, ...]) -> str:
    return ",".join(map(str, nodes))


@datadriven(__file__, "testdata/replication_*.txt")
def test_replication(path: Path) -> None:
    run_file(path, Story().run)
