"""A replica that could not be read to the common end: is it said to agree with the others?"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sexton.audit.facts import OpenTransaction, ReplicaFacts, Scope
from sexton.base.errors import PeerError
from sexton.base.partitions import TopicPartition
from sexton.client.replica import Chunk, ReplicaOffsets
from sexton.log.names import HIGH_WATERMARKS
from sexton.survey import evidence, tasks
from sexton.survey import survey as survey_module
from sexton.survey.places import BrokerPlace, FilesPlace, Reader
from sexton.survey.plan import Group, PartitionPlan, Plan, Wanted
from sexton.survey.runner import LocalRunner
from sexton.survey.survey import Nobody, PartitionSurvey, _Audit, run_files_survey
from sexton.survey.tasks import FoldTask, run_task
from tests.unit.audit.replicas import batch_of

AT = TopicPartition("orders", 0)
PLACES = {node: BrokerPlace("nowhere:1", (), node) for node in (1, 2)}


class Broker:
    """A replica of ten records. `ends`: where its log ends when it is read, one time and another;
    after a crash a follower begins with a high watermark that is some seconds old.

    `stumbles`: so often a question is not answered.
    """

    lost: int | None = None  # a record that it does not hold

    def __init__(self, node: int, *ends: int, stumbles: int = 0) -> None:
        self._node, self._ends, self._stumbles = node, list(ends), stumbles
        self.reads = 0

    async def offsets(self) -> ReplicaOffsets:
        if self._stumbles:
            self._stumbles -= 1
            raise PeerError(f"broker {self._node}", "closed the connection")
        return ReplicaOffsets(self._node, 0, 10, 10, 10)

    async def open_transactions(self) -> tuple[OpenTransaction, ...]:
        return ()

    async def read(
        self, start: int, end: int | None = None, *, undecided: bool = False
    ) -> AsyncIterator[Chunk]:
        del end, undecided
        self.reads += 1
        upper = self._ends[min(self.reads, len(self._ends)) - 1]
        held = [offset for offset in range(start, upper) if offset != self.lost]
        data = b"".join(batch_of(f"{offset} k{offset}=v") for offset in held)
        yield Chunk(memoryview(data), upper, 0, 10, 10, ())


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(survey_module, "RECENTLY_S", 0.0)
    yield
    tasks._given_up.clear()


def serve(monkeypatch: pytest.MonkeyPatch, *brokers: Broker) -> None:
    by_node = {broker._node: broker for broker in brokers}

    @asynccontextmanager
    async def opened(
        place: BrokerPlace | FilesPlace, _partition: TopicPartition, **_more: object
    ) -> AsyncIterator[Reader]:
        yield by_node[place.node]

    for module in (tasks, survey_module, evidence):
        monkeypatch.setattr(module, "open_place", opened)


def audited() -> PartitionSurvey:
    stands = {node: ReplicaOffsets(node, 0, 10, 10, 10) for node in PLACES}
    group = Group(Scope(AT, 0, 10, True, seed=1), (1, 2))
    plan = PartitionPlan(AT, True, 0, 1, (1, 2), PLACES, stands, (group,), ())
    wanted = Wanted("nowhere:1")
    audit = _Audit(wanted, LocalRunner(1), Nobody(), None)
    (found,) = audit.run(Plan("c", (plan,), 0, seed=1)).partitions
    return found


def test_a_replica_whose_log_ends_where_it_did_not_before_is_told_as_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serve(monkeypatch, Broker(1, 10), Broker(2, 7))
    assert audited().unread == {2: "broker 2: ends at offset 7, and was known to reach 10"}


def test_it_is_read_again_when_the_others_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    second = Broker(2, 7, 10)
    serve(monkeypatch, Broker(1, 10), second)
    found = audited()
    assert found.unread == {} and found.findings == () and second.reads == 2


class Restarted(Broker):
    """It has lost a record, and knows of itself only how far its next read will come."""

    lost = 8

    async def offsets(self) -> ReplicaOffsets:
        known = self._ends[min(self.reads, len(self._ends) - 1)]
        return ReplicaOffsets(self._node, 0, known, known, 10)


@pytest.mark.parametrize(("ends", "found"), [((10, 7, 10), True), ((10, 7), False)])
def test_one_that_is_restarted_between_two_looks_does_not_seem_to_agree(
    monkeypatch: pytest.MonkeyPatch, ends: tuple[int, ...], found: bool
) -> None:
    """What differs is past where it stands when it is looked at again."""
    serve(monkeypatch, Broker(1, 10), Restarted(2, *ends))
    told = audited()
    assert [(each.code, each.replicas) for each in told.findings] == (
        [("missing-record", (2,))] if found else []
    )
    short = {2: "broker 2: ends at offset 7, and was known to reach 10"}
    assert told.unread == ({} if found else short)


def test_a_question_that_is_not_answered_does_not_cost_all_that_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(1, 10, stumbles=1)
    serve(monkeypatch, broker)
    facts = run_task(FoldTask(Scope(AT, 0, 10, True, seed=1), PLACES[1]))
    assert isinstance(facts, ReplicaFacts) and facts.records == 10
    assert broker.reads == 1


# ── copies ──


def copied(tmp_path: Path, *replicas: bytes, high_watermark: int | None = None) -> PartitionSurvey:
    paths = []
    for number, log in enumerate(replicas, 1):
        directory = tmp_path / str(number) / "orders-0"
        directory.mkdir(parents=True)
        (directory / f"{0:020}.log").write_bytes(log)
        if high_watermark is not None:
            checkpoint = f"0\n1\norders 0 {high_watermark}\n"
            (directory.parent / HIGH_WATERMARKS).write_text(checkpoint, encoding="utf-8")
        paths.append(directory.parent)
    (found,) = run_files_survey(paths, LocalRunner(1)).partitions
    return found


def test_a_copy_is_compared_though_its_last_records_before_an_open_transaction_were_cleaned(
    tmp_path: Path,
) -> None:
    """Below the open transaction at 6 nothing is left from 3 on; the other copy ends at 5."""
    first = b"".join(batch_of(line) for line in ("0 a=1", "2 b=1", "6 @7 t=1"))
    second = b"".join(batch_of(line) for line in ("2 b=1", "4 c=1"))
    found = copied(tmp_path, first, second)
    assert {each.key for each in found.findings} == {b"a", b"c"}


def test_copies_are_compared_further_than_one_of_them_whose_transaction_does_not_end(
    tmp_path: Path,
) -> None:
    """The third has missed a marker, and was copied a moment before the others."""
    good = ["0 a=1", "1 @7 t=1", "2 @7 commit", *(f"{n} k{n}=1" for n in range(3, 9))]
    lost = [line for line in good if not line.startswith("5 ")]
    stuck = [line for line in good[:-1] if "commit" not in line]
    logs = [b"".join(map(batch_of, lines)) for lines in (good, lost, stuck)]
    found = copied(tmp_path, *logs)
    assert ("missing-record", (2,)) in [(each.code, each.replicas) for each in found.findings]


CLEANED = ("0 a=1", "3 z=1", "4 k=2", "5 y=1")
NOT_YET = ("0 a=1", "1 k=1", "3 z=1", "4 k=2", "5 y=1")


def test_what_was_cleaned_for_a_record_past_an_old_checkpoint_is_not_missed(tmp_path: Path) -> None:
    """The checkpoint was copied before the logs: the high watermark it tells of was long past."""
    logs = [b"".join(map(batch_of, lines)) for lines in (CLEANED, NOT_YET)]
    assert copied(tmp_path, *logs, high_watermark=4).findings == ()


def test_what_no_record_past_it_explains_is(tmp_path: Path) -> None:
    """The control: no later record of the key is there."""
    logs = [
        b"".join(batch_of(line) for line in lines if line != "4 k=2")
        for lines in (CLEANED, NOT_YET)
    ]
    (found,) = copied(tmp_path, *logs, high_watermark=4).findings
    assert found.key == b"k"
