"""Which replicas are rebuilt, in which steps, and does it end well whoever dies in between?"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from sexton.base.partitions import TopicPartition
from sexton.machines import repair
from sexton.machines.repair import (
    Done,
    Job,
    Lead,
    Move,
    Noted,
    Sight,
    Stop,
    Wait,
    is_overtaken,
    next_step,
    plan_job,
    planned_steps,
)
from sexton.machines.repair_verdicts import Judged, decide

AT = TopicPartition("orders", 0)


def judged(
    code: str, wrong: tuple[int, ...], right: tuple[int, ...] | None, certainty: str = "certain"
) -> Judged:
    return Judged(f"{code}-{wrong}", code, AT, wrong, right, certainty, "a", "b")


# ── who is wrong ──


def test_wrong_replicas_are_rebuilt_from_those_that_nobody_calls_wrong() -> None:
    found = [
        judged("tombstone-divergence", (3,), (1, 2)),
        judged("missing-record", (2,), (1,)),
    ]
    decision = decide(AT, (3, 2, 1), found)
    assert (decision.wrong, decision.sources) == ((3, 2), (1,))
    assert decision.is_clear


def test_the_truth_may_live_on_one_follower_only() -> None:
    decision = decide(AT, (1, 2, 3), [judged("missing-record", (1, 2), (3,))])
    assert (decision.wrong, decision.sources) == ((1, 2), (3,))


def test_where_nobody_can_know_nothing_is_chosen() -> None:
    unknown = judged("tombstone-divergence", (1, 2), None, "unknown")
    decision = decide(AT, (1, 2), [unknown])
    assert not decision.is_clear and decision.wrong == ()
    assert decision.open == (unknown,)


def test_one_open_finding_keeps_every_replica_of_the_partition() -> None:
    unknown = judged("corrupt-batch", (1, 2, 3), None, "unknown")
    decision = decide(AT, (1, 2, 3), [unknown, judged("tombstone-divergence", (3,), (1, 2))])
    assert not decision.is_clear
    assert decision.open == (unknown,)


def test_replicas_that_are_wrong_in_turn_leave_no_source() -> None:
    found = [judged("tombstone-divergence", (1,), (2,)), judged("missing-record", (2,), (1,))]
    decision = decide(AT, (1, 2), found)
    assert not decision.is_clear
    assert decision.open == tuple(found)


def test_a_person_may_say_whom_to_trust() -> None:
    unknown = judged("tombstone-divergence", (1, 2), None, "unknown")
    decision = decide(AT, (1, 2), [unknown], trusted=2)
    assert (decision.wrong, decision.sources) == ((1,), (2,))


def test_a_damaged_batch_condemns_its_own_replica() -> None:
    decision = decide(AT, (1, 2, 3), [judged("corrupt-batch", (2,), None)])
    assert (decision.wrong, decision.sources) == ((2,), (1, 3))


def test_a_hanging_transaction_is_no_matter_of_replicas() -> None:
    hanging = judged("hanging-transaction", (1, 2, 3), (1, 2, 3))
    decision = decide(AT, (1, 2, 3), [hanging])
    assert decision.aside == (hanging,) and not decision.wrong


# ── whether it can be done ──


def sight(
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] | None = None,
    leader: int = 1,
    brokers: tuple[int, ...] = (1, 2, 3),
) -> Sight:
    return Sight(leader, 5, replicas, replicas if isr is None else isr, False, frozenset(brokers))


def plan(seen: Sight, wrong: tuple[int, ...], right: tuple[int, ...], least: int) -> Job | Stop:
    return plan_job(AT, seen, wrong, right, least, dict.fromkeys(seen.brokers))


def test_three_replicas_need_no_help() -> None:
    job = plan(sight(), (3,), (1, 2), least=2)
    assert isinstance(job, Job) and job.helper is None


@pytest.mark.parametrize(
    ("seen", "least"),
    [
        (sight(), 3),  # as many as there are
        (sight((1, 2), brokers=(1, 2)), 1),  # one copy would be left alone
        (sight(isr=(1, 3)), 2),  # one is away already
    ],
)
def test_never_too_few_in_sync(seen: Sight, least: int) -> None:
    wrong = seen.isr[-1:]
    refused = plan(seen, wrong, (1,), least)
    assert isinstance(refused, Stop) and "no broker is free" in refused.why
    with_a_fourth = replace(seen, brokers=seen.brokers | {4})
    job = plan(with_a_fourth, wrong, (1,), least)
    assert isinstance(job, Job) and job.helper == 4
    (step,) = [s for s in planned_steps(job, with_a_fourth) if "meanwhile" in s]
    assert "broker 4" in step


def test_help_comes_from_the_same_rack_if_it_can() -> None:
    seen = sight((1, 2), brokers=(1, 2, 3, 4))
    job = plan_job(AT, seen, (2,), (1,), 1, {1: "a", 2: "b", 3: "a", 4: "b"})
    assert isinstance(job, Job) and job.helper == 4


def test_the_right_replica_must_be_in_sync() -> None:
    refused = plan(sight(isr=(1, 2)), (1, 2), (3,), least=1)
    assert isinstance(refused, Stop) and "not in sync" in refused.why


def test_a_broker_that_is_down_cannot_copy() -> None:
    refused = plan(sight(isr=(1, 2), brokers=(1, 2)), (3,), (1, 2), least=1)
    assert isinstance(refused, Stop) and "broker 3 is down" in refused.why


# ── the steps, in a world where anybody may die at any time ──


@dataclass(slots=True)
class World:
    """A partition with logs that are right, wrong or patched together; things take a while."""

    chance: random.Random
    logs: dict[int, str]  # `right`, `wrong`, `mixed`; being copied: `>` and the leader
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    brokers: tuple[int, ...]
    epoch: int = 1
    moving: bool = False
    deleting: list[int] = field(default_factory=list)
    fewest: int = 9

    def sight(self) -> Sight:
        holding = frozenset(self.logs)
        return Sight(
            self.leader, self.epoch, self.replicas, self.isr, self.moving,
            frozenset(self.brokers), holding,
        )  # fmt: skip

    def move(self, replicas: tuple[int, ...]) -> None:
        added = [node for node in replicas if node not in self.replicas]
        self.deleting += [node for node in self.replicas if node not in replicas]
        self.epoch += self.chance.random() < 0.5  # Kafka and we differ in this
        self.replicas = replicas
        self.isr = tuple(node for node in self.isr if node in replicas)
        self.fewest = min(self.fewest, len(self.isr))
        for node in added:
            if node not in self.deleting:  # else it is so quick that its broker does not notice
                self.logs[node] = f">{self.leader}"
            else:
                self.deleting.remove(node)
        self.moving = bool(added)

    def passes(self) -> None:
        """Some of what is under way gets done."""
        if self.deleting and self.chance.random() < 0.5:
            del self.logs[self.deleting.pop()]
        for node in self.replicas:
            if node not in self.isr and self.chance.random() < 0.5:
                log = self.logs[node]
                if log.startswith(">"):
                    same = log == f">{self.leader}"
                    self.logs[node] = self.logs[self.leader] if same else "mixed"
                self.isr = (*self.isr, node)
        self.moving = any(node not in self.isr for node in self.replicas)

    def lead(self, node: int) -> None:
        if node in self.isr and node != self.leader:
            self.leader, self.epoch = node, self.epoch + 1


def play(seed: int, wrong: tuple[int, ...], brokers: int, least: int) -> World:
    chance = random.Random(seed)
    logs = {node: "wrong" if node in wrong else "right" for node in (1, 2, 3)}
    world = World(chance, dict(logs), (1, 2, 3), (1, 2, 3), 1, tuple(range(1, brokers + 1)))
    right = tuple(node for node in (1, 2, 3) if node not in wrong)
    noted = plan_job(AT, world.sight(), wrong, right, least, dict.fromkeys(world.brokers))
    assert isinstance(noted, Job)
    accidents = 2
    for _ in range(500):
        step = next_step(noted, world.sight())
        match step:
            case Done():
                assert world.fewest >= max(2, least)
                return world
            case Noted(job):
                if chance.random() < 0.7:  # else somebody died before it was written down
                    noted = job
            case Move(replicas):
                if chance.random() < 0.8:
                    world.move(replicas)
            case Lead(node, replicas):
                assert {*replicas} == {*world.replicas}
                world.replicas = replicas
                if chance.random() < 0.8:
                    world.lead(node)
            case Stop(why):
                raise AssertionError(why)
            case Wait():
                pass
        world.passes()
        if accidents and chance.random() < 0.1:
            accidents -= 1
            world.lead(chance.choice(world.isr))
    raise AssertionError("it does not end")


@pytest.mark.parametrize(
    ("wrong", "brokers", "least"),
    [((3,), 3, 2), ((1,), 3, 2), ((1, 2), 3, 2), ((2, 3), 4, 3), ((1,), 4, 3)],
)
def test_whatever_happens_every_log_is_right_in_the_end(
    wrong: tuple[int, ...], brokers: int, least: int
) -> None:
    for seed in range(300):
        world = play(seed, wrong, brokers, least)
        kept = {node: log for node, log in world.logs.items() if node not in world.deleting}
        assert kept == {1: "right", 2: "right", 3: "right"}, seed
        assert world.replicas == (1, 2, 3), seed


def spoilt(seed: int) -> bool:
    return {*play(seed, (3,), 3, 2).logs.values()} != {"right"}


def test_without_care_for_the_leader_a_log_is_patched_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The negative control of the test above."""
    monkeypatch.setattr(repair, "_same_leader", lambda _then, _now: True)
    assert any(map(spoilt, range(300)))


def test_without_waiting_for_the_deletion_the_wrong_log_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another one: whoever does not ask the broker believes that it is quick."""
    look = World.sight

    def hasty(world: World) -> Sight:
        seen = look(world)
        return replace(seen, holding=frozenset({*seen.holding} & {*seen.replicas}))

    monkeypatch.setattr(World, "sight", hasty)
    assert any(map(spoilt, range(300)))


def test_a_stranger_among_the_replicas_stops_it() -> None:
    job = Job(AT, (1, 2, 3), (3,), (1, 2), 2)
    seen = sight((1, 2, 3, 4), brokers=(1, 2, 3, 4))
    assert isinstance(next_step(job, seen), Stop)
    assert is_overtaken(job, seen)
    assert not is_overtaken(job, replace(seen, moving=True)), "nobody knows yet where to"
    assert not is_overtaken(replace(job, helper=4), seen), "it is there to help"
    assert not is_overtaken(job, sight((1, 2))), "its own step, half done"


def test_a_replica_that_its_broker_still_holds_is_not_given_back() -> None:
    """It would keep its log, wrong as it is."""
    job = Job(AT, (1, 2, 3), (3,), (1, 2), 2)
    away = replace(sight((1, 2)), holding=frozenset({3}))
    assert isinstance(next_step(job, away), Wait)
    gone = next_step(job, replace(away, holding=frozenset()))
    assert isinstance(gone, Noted)
    assert isinstance(next_step(gone.job, replace(away, holding=frozenset())), Move)


# ── who helps dies ──


@pytest.mark.parametrize("is_assigned", [True, False])
def test_who_is_away_is_given_back_though_the_broker_that_helps_is_down(is_assigned: bool) -> None:
    """Broker 3 was taken away because 4 was there: without both of them one is in sync alone, and
    nobody can write. To wait for 4, which may never come back, would keep it so."""
    job = Job(AT, (1, 3), (3,), (1,), 2, helper=4)
    replicas = (1, 4) if is_assigned else (1,)
    seen = Sight(1, 5, replicas, (1,), False, frozenset({1, 3}))
    step = next_step(job, seen)
    assert isinstance(step, Noted) and step.job.emptied is not None, "its copy is deleted"
    back = next_step(step.job, seen)
    assert isinstance(back, Move) and back.replicas == (1, 3, *replicas[1:])
    returned = replace(seen, replicas=back.replicas, holding=frozenset({3}))
    assert next_step(step.job, returned) == Wait("broker 3 copies from broker 1", 3)
    rebuilt = next_step(step.job, replace(returned, isr=(1, 3)))
    assert isinstance(rebuilt, Noted) and rebuilt.job.rebuilt == (3,)


def test_but_nobody_is_taken_away_without_help() -> None:
    job = Job(AT, (1, 3), (3,), (1,), 2, helper=4)
    seen = Sight(1, 5, (1, 3, 4), (1, 3), False, frozenset({1, 3}), frozenset({3}))
    assert next_step(job, seen) == Wait("broker 4 copies", 4)
