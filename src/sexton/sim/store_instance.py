"""One process of the counting application: a member of the group, with a worker for each task.

It can be killed, stand still, be closed in good order, and start again on the local stores that it
left behind. What its workers cannot go on with ends it, as it would end a real one; somebody starts
it again. Once committed records are lost, somebody takes it down for good.
"""

from __future__ import annotations

from sexton.machines.stores_assignment import Share
from sexton.machines.stores_events import Role
from sexton.sim.checks import Checks
from sexton.sim.clients import Traffic
from sexton.sim.conversations import Talking
from sexton.sim.store_calls import Member
from sexton.sim.store_checks import StoreChecks
from sexton.sim.store_group import Claims, Membership
from sexton.sim.store_worker import Disk, StoreConfig, Worker
from sexton.sim.world import World

RESTART_MS = 600_000


class StoreInstance(Talking):
    def __init__(
        self,
        world: World,
        checks: Checks,
        traffic: Traffic,
        number: int,
        seed: str,
        config: StoreConfig,
        judge: StoreChecks,
    ) -> None:
        super().__init__(world, checks, traffic, number, seed)
        self.name, self._config, self._judge = config.name, config, judge
        self._partitions = config.partitions
        self.disks: dict[int, Disk] = {}
        self.up = False

    def start(self) -> None:
        if self.up or self.stopped:
            return
        self.up, self.paused, self._hangs = True, False, False
        self.life += 1
        self._workers: dict[int, Worker] = {}
        self._owned: list[int] = []
        for number in self.disks:
            self._worker(number)
        self._group = Membership(
            self, self._partitions, self._claims, self._renewed, self._shared, self._lost
        )
        self._living = self.talk(self._group.live(), lambda _: None)

    @property
    def owns(self) -> bool:
        """Does it work on some task?"""
        return self.up and bool(self._owned)

    def hang(self) -> None:
        """It does not talk to its group any more, and hears nothing of it; its workers go on."""
        self._living.drop()
        self._hangs = True

    def go_on(self) -> None:
        if self.up and self._hangs:
            self._hangs = False
            self._living = self.talk(self._group.live(), lambda _: None)

    def kill(self) -> None:
        """What was under way is lost to it; its local stores stay."""
        self.up = self.paused = False
        self.life += 1

    def close(self) -> None:
        """It says that it goes, and goes."""
        group, member = self._group, self._group.member_id
        self.kill()
        if member:
            self.talk(group.leave(), lambda _: None)

    def lose_disk(self) -> None:
        self.disks = {}

    def _failed(self, why: str) -> None:
        self.world.tell(f"instance {self.name} ends: {why}")
        self.kill()
        self.world.after(RESTART_MS, self.start)

    def _worker(self, number: int) -> Worker:
        if number not in self._workers:
            worker = Worker(
                self, self._config, number, self.disks.setdefault(number, Disk()), self._judge,
                self._member, self._failed,
            )  # fmt: skip
            self._workers[number] = worker
            worker.open()
        return self._workers[number]

    def _member(self) -> Member:
        return Member(self._group.member_id, self._group.generation)

    # ── what the group asks and says ──

    def _claims(self) -> Claims:
        copies = {number: each.position for number, each in self._workers.items() if each.position}
        return Claims(list(self._owned), copies)

    def _renewed(self, generation: int) -> None:
        for number in self._owned:
            self._workers[number].give(Role.ACTIVE, generation)

    def _shared(self, share: Share) -> bool:
        if self._judge.excused:
            self.world.tell(f"instance {self.name} is taken down: committed records were lost")
            self.stop()
        generation = self._group.generation
        self._judge.shared(generation)
        active = [each.partition for each in share.active]
        standby = [each.partition for each in share.standby]
        given_up = [number for number in self._owned if number not in active]
        for number in range(self._partitions):
            role = Role.ACTIVE if number in active else Role.NONE
            role = Role.STANDBY if number in standby else role
            if role is not Role.NONE or number in self._workers:
                self._worker(number).give(role, generation)
        self._owned = active
        return bool(given_up)

    def _lost(self) -> None:
        self._owned = []
        for worker in self._workers.values():
            worker.give(Role.NONE, -1)
