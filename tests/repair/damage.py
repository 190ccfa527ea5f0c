"""Every kind of damage at once: broker 3 is away once, and many topics suffer from it.

    topic        replicas  what is wrong in the end
    deleted      1,2,3     a deleted key lives on broker 3
    killed       1,2,3     the same, with more to copy
    two-copies   1,3       the same: the truth is on one follower only
    aborted      1,2,3     an aborted record is shown by broker 3
    hidden       1,2,3     a committed record is hidden by broker 3
    stuck        1,2,3     broker 3 waits for a transaction, and nobody remembers how it ended
    witness      1,2,3     the same, and broker 1 remembers that it was committed
    none-right   1,3       a deleted key lives on broker 3, another one on broker 1

Broker 3 leads all of them in the end. For the last two, broker 1's disk is put back to an earlier
day, which Apache Kafka does not notice.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from sexton.lab.divergences import QUICK
from sexton.lab.hands import ClientHands
from sexton.lab.stage import AWAY, Stage, gone
from sexton.testing.cluster import Cluster

KINDS = {
    "deleted": (1, 2, 3), "killed": (1, 2, 3), "two-copies": (1, 3), "aborted": (1, 2, 3),
    "hidden": (1, 2, 3), "stuck": (1, 2, 3), "witness": (1, 2, 3), "none-right": (1, 3),
}  # fmt: skip
DELETED = ("deleted", "killed", "two-copies")
COMMITTED = ("hidden", "stuck", "witness")
MORE_TO_COPY = 40
OLD = 1  # the broker whose disk is put back


@dataclass(slots=True)
class Damage:
    cluster: Cluster
    images: Path  # where copies of a disk are kept for the time
    kinds: tuple[str, ...] = tuple(KINDS)
    stages: dict[str, Stage] = field(default_factory=dict)

    def of(self, *kinds: str) -> list[Stage]:
        return [self.stages[kind] for kind in kinds if kind in self.stages]

    def topics(self) -> dict[str, str]:
        return {kind: each.topic for kind, each in self.stages.items()}

    def make(self) -> None:
        hands = ClientHands(self.cluster)
        for kind in self.kinds:
            self.stages[kind] = Stage(self.cluster, hands, QUICK, kind, replicas=KINDS[kind])
        self._begin()
        self.cluster.kill(AWAY)
        for each in self.stages.values():
            self.cluster.wait_for(each.topic, 0, lambda state: AWAY not in state.isr)
        self._go_on_without()
        self._forget()
        self.cluster.restart(AWAY)
        for each in self.stages.values():
            each.wait_until_in_sync()
        self._go_on_with()
        if self.of("witness", "none-right"):
            self._put_back_a_disk()
        for each in self.stages.values():
            each.elect()
        for each in self.of("stuck"):
            each.write("z", "1")

    def _begin(self) -> None:
        for each in self.of("killed"):
            for number in range(MORE_TO_COPY):
                each.write(f"other-{number}", "x")
        for each in self.of(*DELETED):
            each.write("k", "1")
        for each in self.of("none-right"):
            each.write("j", "1")
            each.write("k", "1")
        for each in self.of("aborted", *COMMITTED):
            each.begin("p1", "k", "1")
        for each in self.stages.values():
            end = _end(each)
            each.until(lambda each=each, end=end: each.has_copied(end), "broker 3 has all")  # type: ignore[misc]

    def _go_on_without(self) -> None:
        """Broker 3 misses the end of each story."""
        for each in self.of(*DELETED, "none-right"):
            each.write("k", None)
        for each in self.of("aborted"):
            each.abort("p1")
        for each in self.of(*COMMITTED):
            each.commit("p1")
            each.write("k", "2")
        for each in self.of("witness"):
            self._keep_disk(each)

    def _forget(self) -> None:
        """The others clean their logs. Nothing is at the offset where the missed witness was."""
        witness = {
            kind: MORE_TO_COPY + 1 if kind == "killed" else 2 if kind == "none-right" else 1
            for kind in self.stages
        }
        waiting = dict(self.stages)
        for _ in range(2 * QUICK.most_steps):
            for kind, each in list(waiting.items()):
                if gone(each.logs()[1], witness[kind]):
                    if kind in ("hidden", "witness"):
                        each.put_off_cleaning()  # or what is to be seen would be removed, too
                    del waiting[kind]
            if not waiting:
                return
            self._pass_time(waiting)
        raise AssertionError(f"nobody forgets: {list(waiting)}")

    def _pass_time(self, stages: dict[str, Stage]) -> None:
        self.cluster.let_time_pass(QUICK.step_ms)
        for each in stages.values():
            each.write("filler", "x")

    def _go_on_with(self) -> None:
        """Broker 3 takes the producer's next marker for the one that it has missed."""
        for each in self.of("aborted"):
            each.begin("p1", "j", "2")
            each.commit("p1")
        for each in self.of("hidden"):
            each.begin("p1", "j", "2")
            each.abort("p1")

    # ── a disk from another day ──

    def _put_back_a_disk(self) -> None:
        for each in self.of("none-right"):
            self._keep_disk(each)
            each.write("j", None)
            tombstone = _end(each) - 1
            for _ in range(QUICK.most_steps):
                if all(gone(log, tombstone) for log in each.logs().values()):
                    break
                self._pass_time({"none-right": each})
            else:
                raise AssertionError("the second tombstone stays")
        self.cluster.stop(OLD)
        for each in self.of("witness", "none-right"):
            place = self._place(each)
            shutil.rmtree(place)
            shutil.copytree(self.images / each.topic, place)
        self.cluster.restart(OLD)
        for each in self.stages.values():
            self.cluster.wait_for(each.topic, 0, lambda state: OLD in state.isr)

    def _keep_disk(self, stage: Stage) -> None:
        """While the broker runs: what it has written of its log. It makes indexes anew."""
        kept = self.images / stage.topic
        kept.mkdir(parents=True)
        for file in self._place(stage).iterdir():
            if file.suffix in (".log", ".metadata") or file.name == "leader-epoch-checkpoint":
                shutil.copy(file, kept)

    def _place(self, stage: Stage) -> Path:
        return self.cluster.data_directory(OLD) / f"{stage.topic}-0"


def _end(stage: Stage) -> int:
    """Of its leader's log, while that is broker 1."""
    return stage.logs()[1].offsets.log_end
