"""A repair that is interrupted, refused, helped, or told what to do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from sexton.audit import settling
from sexton.base.errors import ConfigError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.cli.main import main
from sexton.client.client import Client
from sexton.client.config_changes import BROKER, TOPIC, Changes, Place, alter, described
from sexton.guard import repair_options
from sexton.guard.repair import CLEANED_AGAIN, STAYS_FROZEN, Repair, begin
from sexton.guard.repair_notes import Notes, NotesFile
from sexton.guard.repair_planning import judged, plan_repair
from sexton.lab.divergences import EMBEDDED_OPTIONS
from sexton.lab.looking import consumed
from sexton.machines.guard_notes import FOREVER, MAX_LAG, MIN_LAG
from sexton.machines.repair import Job
from sexton.survey import judging
from sexton.survey.plan import Wanted
from sexton.survey.runner import LocalRunner
from sexton.survey.survey import Survey, run_survey
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.guard.harness import QUICK, RunningGuard
from tests.repair.stages import diverged, killed_while_it_copies

PREVIOUS = {MIN_LAG: "7", MAX_LAG: "86400000"}
Run = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(
        compaction="independent", options=EMBEDDED_OPTIONS, frozen_clock=True
    ) as started:
        yield started


@pytest.fixture
def run(cluster: EmbeddedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def repair(topic: str, *arguments: str) -> tuple[int, dict[str, Any]]:
        where = ["-b", cluster.bootstrap_servers, "--state", str(tmp_path / "notes.json")]
        capsys.readouterr()
        code = main(["repair", topic, *where, "--format", "json", *arguments])
        return code, json.loads(capsys.readouterr().out)

    return repair


def options_of(cluster: EmbeddedCluster, topic: str) -> dict[str, str | None]:
    """What is set on the topic itself."""

    async def ask() -> dict[str, str | None]:
        async with Client(cluster.bootstrap_servers) as client:
            found = await described(client, (TOPIC, topic), (MIN_LAG, MAX_LAG))
            return {name: value.own for name, value in found.items()}

    return asyncio.run(ask())


ALL = (1, 2, 3)
TOPICS = {
    "words": ALL, "notes": ALL, "killed": ALL, "operator": ALL, "guarded": ALL, "deleted": ALL,
    "lives": ALL, "untouched": ALL, "two-copies": (1, 3), "many": ALL, "two-keys": ALL,
    "crash": ALL, "frozen": ALL, "rounds": ALL, "others": ALL, "remade": ALL,
}  # fmt: skip


@pytest.fixture(scope="module")
def topics(cluster: EmbeddedCluster) -> dict[str, str]:
    """In each of them the deleted key k lives on broker 3, which leads."""
    made = diverged(cluster, TOPICS, {"many": "kl", "two-keys": "kl"})
    for topic in made.values():
        assert "k" in consumed(cluster.bootstrap_servers, topic).latest
    return made


@pytest.fixture
def untouched(topics: dict[str, str]) -> str:
    """For tests after which it is still the same."""
    return topics["untouched"]


def audit(cluster: EmbeddedCluster, topic: str) -> Survey:
    return run_survey(Wanted(cluster.bootstrap_servers, topics=(topic,)), LocalRunner())


# ── interrupted ──


class Interrupted(Exception):
    pass


@dataclass(slots=True)
class Lives:
    """A process that dies over and over: at each thing that it has not said or noted before."""

    of_words: bool = False
    of_notes: bool = False
    known: set[str] = field(default_factory=set)
    hear: Callable[[str], None] = print

    def speak(self, partition: TopicPartition | None, what: str) -> None:
        self.hear(what)
        if self.of_words:
            self._end(f"{partition} {what}")

    def note(self, notes: Notes) -> None:
        if self.of_notes:
            self._end(str(notes))

    def _end(self, what: str) -> None:
        if what not in self.known:
            self.known.add(what)
            raise Interrupted(what)


@dataclass(slots=True)
class MortalFile(NotesFile):
    lives: Lives = field(default_factory=Lives)

    def write(self, notes: Notes) -> None:
        NotesFile.write(self, notes)
        self.lives.note(notes)


async def live(cluster: EmbeddedCluster, topic: str, path: Path, lives: Lives) -> None:
    async with Client(cluster.bootstrap_servers) as client:
        with MortalFile(path, lives=lives) as file:
            notes = file.read()
            if notes is None:
                found = (await asyncio.to_thread(audit, cluster, topic)).findings
                plans = await plan_repair(client, [judged(each) for each in found])
                if not plans:
                    return  # the last one died after all was done
                (plan,) = plans
                assert plan.job is not None
                topology = await client.topology([topic])
                topic_id = topology.topic(topic).topic_id.hex()
                jobs = (plan.job,)
                notes = begin(file, Notes(topology.cluster_id or "", topic, topic_id, 0, (), jobs))
            repair = Repair(client, file, notes, lives.speak)
            await repair.rebuild()
            await repair.release()


@pytest.mark.parametrize(
    ("name", "lives"), [("words", Lives(of_words=True)), ("notes", Lives(of_notes=True))]
)
def test_it_may_die_after_every_single_step(
    cluster: EmbeddedCluster, topics: dict[str, str], name: str, lives: Lives, tmp_path: Path
) -> None:
    topic = topics[name]
    cluster.alter_topic(topic, PREVIOUS)
    before = cluster.partition(topic)
    path = tmp_path / "notes.json"
    for _ in range(40):
        try:
            asyncio.run(live(cluster, topic, path, lives))
            break
        except Interrupted:
            pass
    assert len(lives.known) >= 5, "it was not interrupted often enough to prove anything"
    assert not path.exists()
    assert options_of(cluster, topic) == PREVIOUS
    after = cluster.partition(topic)
    assert before is not None and after is not None and after.replicas == before.replicas
    assert not list(audit(cluster, topic).findings)
    for node in (1, 2, 3):
        cluster.elect(topic, 0, node)
        assert "k" not in consumed(cluster.bootstrap_servers, topic).latest


def test_kill_9_while_a_replica_copies(
    cluster: EmbeddedCluster, topics: dict[str, str], run: Run, tmp_path: Path
) -> None:
    topic = topics["killed"]
    cluster.alter_topic(topic, PREVIOUS)
    killed_while_it_copies(cluster, topic, tmp_path / "notes.json")
    assert options_of(cluster, topic) == {MIN_LAG: FOREVER, MAX_LAG: FOREVER}
    code, told = run(topic, "--dry-run")
    assert code == 1 and [each["code"] for each in told["findings"]] == ["not-repaired"]
    code, told = run(topic, "--yes")
    assert code == 0, told
    assert told["summary"]["rebuilt"] == 1
    assert told["steps"][-1]["what"].endswith(CLEANED_AGAIN)
    assert options_of(cluster, topic) == PREVIOUS
    assert not list(audit(cluster, topic).findings)


def test_the_broker_that_is_copied_from_dies(
    cluster: EmbeddedCluster, topics: dict[str, str], tmp_path: Path
) -> None:
    topic = topics["crash"]
    path = tmp_path / "notes.json"
    said: list[str] = []
    lives = Lives()
    lives.hear = said.append
    cluster.slow_down(3)
    with ThreadPoolExecutor(1) as pool:
        try:
            repair = pool.submit(asyncio.run, live(cluster, topic, path, lives))
            until(lambda: any("starts over" in what for what in said), "broker 3 copies")
            leader = cluster.leader_of(topic)
            cluster.kill(leader)
            cluster.wait_for(topic, 0, lambda state: state.leader not in (leader, -1))
        finally:
            cluster.speed_up(3)
        cluster.restart(leader)
        repair.result(60)
    assert any("it copies again" in what for what in said), said
    assert not list(audit(cluster, topic).findings)
    assert options_of(cluster, topic)[MIN_LAG] is None


def test_what_an_operator_sets_meanwhile_stays(
    cluster: EmbeddedCluster, topics: dict[str, str], tmp_path: Path
) -> None:
    topic = topics["operator"]
    path = tmp_path / "notes.json"
    with pytest.raises(Interrupted, match="not cleaned"):
        asyncio.run(live(cluster, topic, path, Lives(of_words=True)))
    assert options_of(cluster, topic)[MIN_LAG] == FOREVER
    cluster.alter_topic(topic, {MIN_LAG: 42})
    asyncio.run(live(cluster, topic, path, Lives()))
    assert options_of(cluster, topic)[MIN_LAG] == "42"


def test_a_topic_that_was_frozen_before_is_not_said_to_be_cleaned(
    cluster: EmbeddedCluster, topics: dict[str, str], run: Run
) -> None:
    topic = topics["frozen"]
    cluster.alter_topic(topic, {MIN_LAG: FOREVER})
    code, told = run(topic, "--yes")
    assert code == 0, told
    assert told["steps"][-1]["what"] == f"{topic} {STAYS_FROZEN}"
    assert options_of(cluster, topic)[MIN_LAG] == FOREVER


def test_beside_a_guard_that_freezes_and_thaws_the_same_topic(
    cluster: EmbeddedCluster, topics: dict[str, str], run: Run
) -> None:
    topic = topics["guarded"]
    cluster.alter_topic(topic, PREVIOUS)
    config = replace(QUICK, only=frozenset({topic}))
    with RunningGuard(cluster.bootstrap_servers, config) as guard:
        guard.catch_up()
        cluster.kill(2)
        until(lambda: options_of(cluster, topic)[MIN_LAG] == FOREVER, "the guard freezes it")
        cluster.restart(2)
        cluster.wait_for(topic, 0, lambda state: len(state.isr) == 3)
        code, told = run(topic, "--yes")  # the guard sets it free meanwhile
        assert code == 0, told
        assert not list(audit(cluster, topic).findings)

        assert guard.daemon is not None
        machine = guard.daemon.guard

        def is_free() -> bool:
            """What the guard came to doubt after the last audit is settled by another one."""
            held = machine.memory.in_force(topic)
            if held is not None and held.note.doubts:
                run(topic, "--yes")
            return options_of(cluster, topic) == PREVIOUS

        def why() -> str:
            return repr((machine.memory.in_force(topic), machine.topics, machine.not_seen))

        until(is_free, "all is as it was", explain=why)


# ── refused, or with help ──


def test_it_does_not_go_below_min_insync_replicas(
    cluster: EmbeddedCluster, run: Run, untouched: str
) -> None:
    topic = untouched
    cluster.alter_topic(topic, {"min.insync.replicas": 3})
    before = cluster.partition(topic)
    code, told = run(topic, "--yes")
    assert code == 1
    (finding,) = told["findings"]
    assert finding["code"] == "not-repaired" and "no broker is free" in finding["message"]
    assert cluster.partition(topic) == before
    assert options_of(cluster, topic)[MIN_LAG] is None
    cluster.alter_topic(topic, {"min.insync.replicas": None})


def test_of_two_replicas_one_is_never_left_alone(
    cluster: EmbeddedCluster, topics: dict[str, str], run: Run
) -> None:
    topic = topics["two-copies"]
    code, told = run(topic, "--yes")
    assert code == 0, told
    steps = [each["what"] for each in told["steps"]]
    assert any("broker 2 holds a copy" in step for step in steps)
    state = cluster.partition(topic)
    assert state is not None and set(state.replicas) == {1, 3}
    assert not list(audit(cluster, topic).findings)


def test_keys_that_nobody_looked_at_are_not_thrown_away(
    cluster: EmbeddedCluster,
    topics: dict[str, str],
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two keys differ, and one is looked at; a production topic has thousands of them."""
    monkeypatch.setattr(judging, "MOST_JUDGED", 1)
    code, told = run(topics["many"], "--yes")
    assert code == 1
    (finding,) = told["findings"]
    assert finding["code"] == "not-repaired" and "1 more key" in finding["message"]
    assert "--keep-copy" in finding["remedy"]
    code, told = run(topics["many"], "--yes", "--keep-copy", str(tmp_path / "wrong"))
    assert code == 0, told
    assert not list(audit(cluster, topics["many"]).findings)


def test_replicas_are_not_said_to_agree_in_what_nobody_looked_at(
    cluster: EmbeddedCluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition in which more transactions were aborted than are compared one by one."""
    cluster.create_topic("aborted", 1, {"cleanup.policy": "compact"})
    servers = cluster.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "aborts"})
    producer.init_transactions(30)
    for _ in range(2):
        producer.begin_transaction()
        producer.produce("aborted", b"value", b"key")
        producer.flush(30)
        producer.abort_transaction(30)
    assert run("aborted", "--yes")[0] == 0
    monkeypatch.setattr(settling, "MOST_SPANS", 1)
    code, told = run("aborted", "--yes")
    assert code == 3 and not told["findings"]
    (part,) = told["incomplete"]
    assert part["subject"] == "aborted-0"
    assert part["why"].startswith("1 more keys, transactions or stretches may differ")


def test_what_another_round_throws_away_is_kept_as_well(
    cluster: EmbeddedCluster, topics: dict[str, str], run: Run, tmp_path: Path
) -> None:
    """The first round came to its end, and broker 3 is wrong again; an older copy stays."""
    topic = topics["rounds"]

    async def after_one_round() -> Notes:
        async with Client(cluster.bootstrap_servers) as client:
            found = (await asyncio.to_thread(audit, cluster, topic)).findings
            (plan,) = await plan_repair(client, [judged(each) for each in found])
            assert plan.job is not None
            topology = await client.topology([topic])
            topic_id = topology.topic(topic).topic_id.hex()
            done = replace(plan.job, done=True, rebuilt=plan.job.wrong)
            return Notes(topology.cluster_id or "", topic, topic_id, 0, jobs=(done,))

    NotesFile(tmp_path / "notes.json").write(asyncio.run(after_one_round()))
    first = tmp_path / "wrong" / "broker-3" / f"{topic}-0" / f"{0:020}.log"
    first.parent.mkdir(parents=True)
    first.write_text("of the first round")
    code, told = run(topic, "--yes", "--keep-copy", str(tmp_path / "wrong"))
    assert (code, told["summary"]["rebuilt"]) == (0, 1), told
    assert first.read_text() == "of the first round"
    second = tmp_path / "wrong" / "broker-3-2" / f"{topic}-0"
    assert [each.name for each in second.iterdir()] == [first.name]
    assert b"k" in (second / first.name).read_bytes()


def test_who_said_yes_to_one_replica_is_asked_about_another(
    cluster: EmbeddedCluster,
    topics: dict[str, str],
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Broker 2's was to be rebuilt, and was; the audit after it finds broker 3's wrong."""
    topic = topics["others"]
    notes, asked = NotesFile(tmp_path / "notes.json"), list[str]()

    async def after_one_round() -> Notes:
        async with Client(cluster.bootstrap_servers) as client:
            topology = await client.topology([topic])
            done = Job(TopicPartition(topic, 0), ALL, (2,), (1,), 1, rebuilt=(2,), done=True)
            topic_id = topology.topic(topic).topic_id.hex()
            return Notes(topology.cluster_id or "", topic, topic_id, 0, jobs=(done,))

    def answering(*answers: bool) -> Iterator[bool]:
        asked.clear()
        notes.write(asyncio.run(after_one_round()))
        return iter(answers)

    def consent(_command: str, what: str, _yes: bool, _instead: str) -> None:
        asked.append(what)
        if not next(answers):
            raise ConfigError("repair", "was not begun")

    monkeypatch.setattr("sexton.cli.repair_run.consent", consent)
    answers = answering(True, False)
    code, told = run(topic)
    assert (code, told["summary"]["findings_left"]) == (1, 1), told
    assert asked == ["go on", f"rebuild another replica, too ({topic}-0 on broker 3)"]
    assert "k" in consumed(cluster.bootstrap_servers, topic).latest, "broker 3 leads as before"
    assert not notes.path.exists(), "it is over"

    answers = answering(True, True)
    code, told = run(topic)
    assert (code, told["summary"]["findings_left"], len(asked)) == (0, 0, 2), told
    assert "k" not in consumed(cluster.bootstrap_servers, topic).latest


def test_a_yes_is_for_the_topic_that_was_audited(
    cluster: EmbeddedCluster,
    topics: dict[str, str],
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the question waits it is deleted and made again: there all replicas agree."""
    topic = topics["remade"]

    def consent(_command: str, _what: str, _yes: bool, _instead: str) -> None:
        cluster.delete_topic(topic)
        cluster.create_topic(topic, [[1, 2, 3]], {"cleanup.policy": "compact"})

    monkeypatch.setattr("sexton.cli.repair_run.consent", consent)
    code, told = run(topic)
    assert code == 1 and told["error"]["kind"] == "another-topic", told
    assert not told.get("steps"), "nothing was done"
    assert options_of(cluster, topic)[MIN_LAG] is None
    assert not (tmp_path / "notes.json").exists()


def test_without_consent_nothing_is_done(
    cluster: EmbeddedCluster, run: Run, untouched: str
) -> None:
    before = cluster.partition(untouched)
    code, told = run(untouched)  # nobody is there to be asked
    assert code == 2 and "--yes" in told["error"]["subject"]
    assert cluster.partition(untouched) == before


def test_who_may_not_move_replicas_does_not_freeze_the_topic_either(
    run: Run,
    untouched: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: EmbeddedCluster,
) -> None:
    """Else it would stay so until somebody comes who may."""

    async def denied(*_: object) -> None:
        raise Refused(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "the reassignment")

    monkeypatch.setattr("sexton.guard.repair.reassign", denied)
    before = options_of(cluster, untouched)
    code, told = run(untouched, "--yes")
    assert code == 1 and "no ACL that allows Alter" in told["error"]["why"], told
    assert options_of(cluster, untouched) == before
    assert not (tmp_path / "notes.json").exists()


def test_who_may_not_throttle_brokers_does_not_freeze_the_topic_either(
    run: Run,
    untouched: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: EmbeddedCluster,
) -> None:
    async def denied(client: Client, place: Place, changes: Changes, **how: bool) -> None:
        if place[0] == BROKER:
            raise Refused(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "options of a broker")
        await alter(client, place, changes, **how)

    monkeypatch.setattr(repair_options, "alter", denied)
    before = options_of(cluster, untouched)
    code, told = run(untouched, "--yes", "--throttle", "20")
    assert code == 1 and "no ACL that allows AlterConfigs" in told["error"]["why"], told
    assert options_of(cluster, untouched) == before
    assert not (tmp_path / "notes.json").exists()


def test_a_plan_is_no_repair(run: Run, untouched: str) -> None:
    code, told = run(untouched, "--dry-run")
    assert (code, told["ok"], told["summary"]["to_rebuild"]) == (1, False, 1)
    (finding,) = told["findings"]
    assert finding["code"] == told["verdicts"][0]["code"] == "tombstone-divergence"
    assert "without --dry-run" in finding["remedy"]


def test_a_topic_that_is_well_is_left_alone(cluster: EmbeddedCluster, run: Run) -> None:
    cluster.create_topic("well", [[1, 2, 3]], {"cleanup.policy": "compact"})
    code, told = run("well", "--yes")
    assert code == 0 and told["summary"]["to_rebuild"] == 0


# ── told what to do ──


def test_a_person_may_say_that_the_key_was_deleted(
    cluster: EmbeddedCluster, topics: dict[str, str], run: Run
) -> None:
    topic = topics["deleted"]
    before = cluster.partition(topic)
    code, told = run(topic, "--yes", "--publish-tombstone", "k")
    assert code == 0, told
    assert "tombstone" in told["choices"][0]["what"]
    assert cluster.partition(topic) == before  # no replica had to be rebuilt
    assert "k" not in consumed(cluster.bootstrap_servers, topic).latest
    assert not list(audit(cluster, topic).findings)


def test_or_that_it_lives(cluster: EmbeddedCluster, topics: dict[str, str], run: Run) -> None:
    topic = topics["lives"]
    code, told = run(topic, "--yes", "--keep-value", "k", "--as-on", "3")
    assert code == 0, told
    for node in (1, 2, 3):
        cluster.elect(topic, 0, node)
        assert consumed(cluster.bootstrap_servers, topic).latest["k"] == "1"


@pytest.mark.parametrize("choice", [("--publish-tombstone", "k"), ("--keep-value", "k")])
def test_the_plan_for_a_key_is_what_will_be_done(
    run: Run, untouched: str, choice: tuple[str, str]
) -> None:
    """When the key is written anew no replica is wrong any more, as the tests above show."""
    code, told = run(untouched, "--dry-run", *choice)
    assert len(told["choices"]) == 1 and "plans" not in told
    assert told["summary"]["to_rebuild"] == 0
    assert code == 1 and [each["code"] for each in told["findings"]] == ["tombstone-divergence"]


def test_the_plan_for_one_of_two_keys_goes_on_with_the_other(
    run: Run, topics: dict[str, str]
) -> None:
    code, told = run(topics["two-keys"], "--dry-run", "--publish-tombstone", "k")
    assert code == 1 and told["summary"]["to_rebuild"] == 1
    assert (len(told["choices"]), len(told["verdicts"]), len(told["findings"])) == (1, 1, 2)


def test_a_key_that_replicas_agree_on_is_not_written(run: Run, untouched: str) -> None:
    code, told = run(untouched, "--yes", "--publish-tombstone", "filler")
    assert code == 2 and "do not differ" in told["error"]["why"]


def test_a_broker_without_a_copy_cannot_be_trusted(run: Run, untouched: str) -> None:
    code, told = run(untouched, "--dry-run", "--trust", "9")
    assert (code, told["error"]["subject"], told["error"]["hint"]) == (2, "--trust 9", "1, 2, 3 do")
    assert told["error"]["why"] == f"holds no replica of {untouched}"


def test_nothing_is_guessed_where_nobody_can_know(
    cluster: EmbeddedCluster,
    run: Run,
    untouched: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The audit's own report, but for its verdict."""
    topic = untouched
    where = ["-b", cluster.bootstrap_servers, "-t", topic, "--engine", "local"]
    capsys.readouterr()
    assert main(["audit", *where, "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report), encoding="utf-8")
    code, told = run(topic, "--dry-run", "--findings", str(file))
    assert code == 1 and told["summary"]["to_rebuild"] == 1

    report["findings"][0] |= {"right": None, "certainty": "unknown", "replicas": [1, 2, 3]}
    file.write_text(json.dumps(report), encoding="utf-8")
    before = cluster.partition(topic)
    code, told = run(topic, "--yes", "--findings", str(file))
    assert code == 1 and told["summary"]["to_rebuild"] == 0
    assert "--publish-tombstone KEY" in told["findings"][0]["remedy"]
    assert cluster.partition(topic) == before
    code, told = run(topic, "--dry-run", "--findings", str(file), "--trust", "1")
    assert code == 1 and told["summary"]["to_rebuild"] == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["orders:x"], "TOPIC:PARTITION"),
        (["orders", "--as-on", "1"], "--keep-value"),
        (["no-such-topic"], "no such topic"),
    ],
)
def test_what_cannot_be_done_is_said(
    cluster: EmbeddedCluster,
    arguments: list[str],
    complaint: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["repair", *arguments, "-b", cluster.bootstrap_servers]) == 2
    assert complaint in capsys.readouterr().err
