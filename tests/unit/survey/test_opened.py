"""A transaction that is open in two partitions is judged in each by what concerns that one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import ClassVar, cast

import pytest

from sexton.audit.facts import BUCKETS, OpenTransaction, ReplicaFacts, Scope
from sexton.audit.window import LogWindow
from sexton.base.errors import PeerError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.replica import ReplicaOffsets
from sexton.client.transactions import Transaction, Transactions
from sexton.survey import opened
from sexton.survey.plan import Group, PartitionPlan
from sexton.survey.rounds import Case

LEFT, RIGHT = TopicPartition("left", 0), TopicPartition("right", 0)
OPEN = OpenTransaction(producer_id=7, epoch=3, start_offset=40, last_timestamp=1_000)
STANDS = ReplicaOffsets(node=1, log_start=0, last_stable=40, high_watermark=50, log_end=50)


def facts(node: int, scope: Scope) -> ReplicaFacts:
    return ReplicaFacts(
        node, scope, 0, 40, 50, 50, 40, records=5, batches=5, bytes=500, keys=3, tombstones=1,
        markers=0, aborted_records=0, first_timestamp=1, last_timestamp=2,
        digests=bytes(8 * BUCKETS), first_repeat=None, aborted=(), open=(OPEN,), misfits=(),
        damage=(),
    )  # fmt: skip


def case_of(partition: TopicPartition) -> Case:
    scope = Scope(partition, 0, 40, True, 7)
    stands = dict.fromkeys((1, 2), STANDS)
    plan = PartitionPlan(
        partition, True, 0, 1, (1, 2), {}, stands, (Group(scope, (1, 2)),), unreadable=()
    )
    return Case(plan, {(0, node): facts(node, scope) for node in (1, 2)})


class StillOpen:
    async def offsets(self) -> ReplicaOffsets:
        return STANDS

    async def open_transactions(self) -> tuple[OpenTransaction, ...]:
        return (OPEN,)


class TwoReaders:
    readers = dict.fromkeys((1, 2), StillOpen())
    unreadable: ClassVar[dict[int, str]] = {}

    async def windows(self, *_where: object) -> dict[int, object]:
        return {}


@asynccontextmanager
async def two_readers(_plan: PartitionPlan) -> AsyncIterator[TwoReaders]:
    yield TwoReaders()


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction under way takes in LEFT, and has never heard of RIGHT."""
    now_ms = int(time.time() * 1000)
    known = Transaction("t", 1, "Ongoing", 7, 3, 60_000, now_ms, (LEFT,))

    async def transactions(_client: object, producers: object) -> Transactions:
        assert producers == {7}
        return Transactions({7: known}, complete=True)

    async def longest(_client: object) -> int:
        return 900_000

    monkeypatch.setattr(opened, "transactions", transactions)
    monkeypatch.setattr(opened, "longest_transaction_ms", longest)
    monkeypatch.setattr(opened, "bench", two_readers)


@pytest.mark.usefixtures("coordinator")
@pytest.mark.parametrize("order", [(LEFT, RIGHT), (RIGHT, LEFT)], ids=str)
def test_each_partition_by_itself(order: tuple[TopicPartition, ...]) -> None:
    cases = [case_of(partition) for partition in order]
    asyncio.run(opened.judge_opened(cast("Client", None), cases))
    found = {case.plan.partition: [each.code for each in case.findings] for case in cases}
    assert found == {LEFT: [], RIGHT: ["hanging-transaction"]}


@pytest.mark.usefixtures("coordinator")
@pytest.mark.parametrize("complete", [True, False])
def test_a_coordinator_that_may_have_been_replaced_does_not_say_that_it_hangs(
    complete: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its producer has begun since is not known to it."""
    known = Transaction("t", 1, "Empty", 7, 3, 60_000, -1, ())

    async def transactions(_client: object, _producers: object) -> Transactions:
        return Transactions({7: known}, complete)

    monkeypatch.setattr(opened, "transactions", transactions)
    case = case_of(LEFT)
    asyncio.run(opened.judge_opened(cast("Client", None), [case]))
    assert [each.code for each in case.findings] == ["hanging-transaction"] * complete


@pytest.mark.usefixtures("coordinator")
def test_a_broker_that_lags_is_waited_for_once_not_in_each_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hundreds of partitions of a replica that is far behind would take an hour."""
    looks: list[TopicPartition] = []

    class Behind(StillOpen):
        def __init__(self, partition: TopicPartition) -> None:
            self.partition = partition

        async def offsets(self) -> ReplicaOffsets:
            looks.append(self.partition)
            return replace(STANDS, high_watermark=49)

    @asynccontextmanager
    async def one_lags(plan: PartitionPlan) -> AsyncIterator[TwoReaders]:
        found = TwoReaders()
        found.readers = {1: StillOpen(), 2: Behind(plan.partition)}
        yield found

    monkeypatch.setattr(opened, "bench", one_lags)
    monkeypatch.setattr(opened, "PATIENCE_S", 0.05)
    monkeypatch.setattr(opened, "PAUSE_S", 0.01)
    cases = [case_of(LEFT), case_of(RIGHT)]
    asyncio.run(opened.judge_opened(cast("Client", None), cases))
    assert looks.count(LEFT) > 1 and looks.count(RIGHT) == 1
    assert [each.code for each in cases[1].findings] == ["hanging-transaction"]


# ── nobody tells us of it ──

MONTH_MS = 30 * 24 * 3_600_000


@pytest.fixture
def no_coordinator(coordinator: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker tells of the producer, and all have answered."""

    async def transactions(_client: object, _producers: object) -> Transactions:
        return Transactions({}, complete=True)

    monkeypatch.setattr(opened, "transactions", transactions)


def may_see(monkeypatch: pytest.MonkeyPatch, why_not: str | None) -> None:
    async def hidden_by(_client: object) -> str | None:
        return why_not

    monkeypatch.setattr(opened, "hidden_by", hidden_by)


@pytest.mark.usefixtures("no_coordinator")
@pytest.mark.parametrize("dated_ms", [-MONTH_MS, MONTH_MS], ids=["in the past", "in the future"])
def test_one_that_may_be_hidden_from_us_is_not_called_hanging(
    dated_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be alive, of a producer that replays old events: their dates say nothing."""
    dated = replace(OPEN, last_timestamp=int(time.time() * 1000) + dated_ms)
    monkeypatch.setattr(f"{__name__}.OPEN", dated)
    may_see(monkeypatch, "we may not Describe the transactional id app-1")
    case = case_of(LEFT)
    asyncio.run(opened.judge_opened(cast("Client", None), [case]))
    assert case.findings == []
    (why,) = case.undecided
    assert why.startswith("a transaction of producer 7 is open from offset 40 on")
    assert why.endswith("we may not Describe the transactional id app-1")
    may_see(monkeypatch, None)
    case = case_of(LEFT)
    asyncio.run(opened.judge_opened(cast("Client", None), [case]))
    assert [each.code for each in case.findings] == ["hanging-transaction"]
    assert case.undecided == []


@pytest.mark.usefixtures("coordinator")
@pytest.mark.parametrize(("at_it", "undecided"), [(LEFT, 0), (RIGHT, 1)], ids=str)
def test_nor_is_silence_of_coordinators_taken_for_health(
    at_it: TopicPartition, undecided: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless one says that it is at it."""
    known = Transaction("t", 1, "Ongoing", 7, 3, 60_000, int(time.time() * 1000), (at_it,))

    async def transactions(_client: object, _producers: object) -> Transactions:
        return Transactions({7: known}, complete=False)

    monkeypatch.setattr(opened, "transactions", transactions)
    case = case_of(LEFT)
    asyncio.run(opened.judge_opened(cast("Client", None), [case]))
    assert case.findings == []
    assert len(case.undecided) == undecided


# ── the leader alone knows for sure that it has not ended ──


class Away(StillOpen):
    async def offsets(self) -> ReplicaOffsets:
        raise PeerError("broker 1", "closed the connection")


@pytest.mark.usefixtures("coordinator")
@pytest.mark.parametrize("leader_answers", [True, False])
def test_a_follower_that_lags_does_not_say_that_nobody_will_end_it(
    leader_answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its coordinator has ended it since the first look, which the leader would know."""
    readers = {1: StillOpen() if leader_answers else Away(), 2: StillOpen()}
    monkeypatch.setattr(TwoReaders, "readers", readers)
    case = case_of(RIGHT)
    asyncio.run(opened.judge_opened(cast("Client", None), [case]))
    codes = [each.code for each in case.findings]
    if leader_answers:
        assert codes == ["hanging-transaction"] and case.unread == {}
    else:
        assert codes == [] and case.unread == {1: "broker 1: closed the connection"}


# ── behind an older one ──

OLDER = OpenTransaction(producer_id=5, epoch=0, start_offset=40, last_timestamp=1_000)
BEHIND = OpenTransaction(producer_id=7, epoch=0, start_offset=45, last_timestamp=1_000)


class Waiting(StillOpen):
    def __init__(self, *opened: OpenTransaction) -> None:
        self.opened = opened

    async def open_transactions(self) -> tuple[OpenTransaction, ...]:
        return self.opened


@pytest.mark.usefixtures("coordinator")
@pytest.mark.parametrize(("looked_to", "not_judged"), [(49, 1), (50, 0)])
def test_a_marker_that_was_not_looked_for_to_the_end_makes_it_incomplete(
    looked_to: int, not_judged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second replica has a transaction open, and the first, which is as far, has not."""

    async def transactions(_client: object, _producers: object) -> Transactions:
        now_ms = int(time.time() * 1000)
        at_it = Transaction("t", 1, "Ongoing", 5, 0, 60_000, now_ms, (LEFT,))
        return Transactions({5: at_it, 7: replace(at_it, producer_id=7)}, complete=True)

    async def windows(
        _self: object, first: int, _end: int, nodes: Iterable[int], _focus: object = None
    ) -> dict[int, LogWindow]:
        return {node: LogWindow(node, first, looked_to, 0, 40, 50, (), (), 0) for node in nodes}

    monkeypatch.setattr(opened, "transactions", transactions)
    monkeypatch.setattr(TwoReaders, "windows", windows)
    monkeypatch.setattr(TwoReaders, "readers", {1: Waiting(OLDER), 2: Waiting(OLDER, BEHIND)})
    case = case_of(LEFT)
    for node, begun in ((1, (OLDER,)), (2, (OLDER, BEHIND))):
        case.facts[0, node] = replace(case.facts[0, node], open=begun)
    asyncio.run(opened.judge_opened(cast("Client", None), [case]))
    assert case.findings == []
    assert case.not_judged == not_judged
