"""Transactions that are open on some replicas and not on others, or open for too long.

A replica that lags has simply not seen the end of a transaction yet. So whatever looks odd is
looked at once more, after every replica has had the time to get as far as the others were at the
first look; one that still has the transaction open by then has its marker behind it.

One that all replicas have open is left to its coordinator. If none tells us of it, that proves
something only if all were asked and nothing can be hidden from us. Else, and if its records are
older than any transaction may get, nobody knows whether it will end: the audit is not complete.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace

from sexton.audit.facts import CoordinatorState, ReplicaFacts
from sexton.audit.rules import judge_open, may_hang
from sexton.audit.waiting_rules import Behind, behind_another
from sexton.audit.window import Focus, LogWindow
from sexton.base.errors import SextonError
from sexton.client.client import Client
from sexton.client.hidden_transactions import hidden_by
from sexton.client.transactions import Transactions, longest_transaction_ms, transactions
from sexton.survey.evidence import Bench, bench
from sexton.survey.rounds import Case

PATIENCE_S = 10.0  # with a broker that lags; it is judged by what it says then
PAUSE_S = 0.1
LONG_MS = 60_000  # Kafka's default of `transaction.timeout.ms`
AROUND = 16  # offsets after the start of an open transaction that people are shown


async def judge_opened(client: Client, cases: list[Case]) -> None:
    now_ms = int(time.time() * 1000)
    odd = [case for case in cases if _is_odd(list(case.furthest().values()), now_ms)]
    if not odd:
        return
    producers = {each for case in odd for each in _producers(case)}
    told = await transactions(client, producers)
    unsure = await _unsure(client, told, producers)
    longest_ms = await longest_transaction_ms(client)
    late: set[int] = set()  # brokers that were waited for in vain, once for all their partitions
    for case in odd:
        first = list(case.furthest().values())
        async with bench(case.plan) as at:
            second = await _second_look(at, case, first, late)
            starts = [each.start_offset for facts in second for each in facts.open]
            if not starts:
                continue
            windows = await at.windows(min(starts), max(starts) + AROUND, at.readers)
            searched = await _search(at, case, behind_another(first, second))
        case.unread.update(at.unreadable)
        # Its coordinator may have ended it since the first look. The leader has the marker then; of
        # the others, one that lags has not, and all that answer would seem to wait for ever.
        leader_answers = any(facts.node == case.plan.leader for facts in second)
        states = _states(told, case, unsure) if leader_answers else {}
        case.findings += judge_open(
            first,
            second,
            states,
            now_ms=now_ms,
            longest_ms=longest_ms,
            windows=list(windows.values()),
            searched=searched,
            replicas=len(case.plan.places),
        )
        if leader_answers:
            unknown = [each for each in _producers(case) if each not in states]
            unknown = [each for each in unknown if not _is_at_it(told, case, each)]
            for each in may_hang(first, second, unknown, now_ms=now_ms, longest_ms=longest_ms):
                case.undecided.append(
                    f"a transaction of producer {each.producer_id} is open from offset "
                    f"{each.start_offset} on, and whether it will end is not known: {unsure}"
                )


async def _unsure(client: Client, told: Transactions, producers: Iterable[int]) -> str | None:
    """Why a coordinator may know more of these than we are told, a clause; None: none does."""
    if not told.complete:
        return "not every broker has said which transactions it coordinates, or they do not agree"
    if all(each in told.by_producer for each in producers):
        return None
    return await hidden_by(client)


async def _search(at: Bench, case: Case, behind: list[Behind]) -> list[LogWindow]:
    """Looks for the markers of these: all replicas, from where the first of them begins on."""
    if not behind:
        return []
    begun = [each.transaction for each in behind]
    starts = tuple(sorted(each.start_offset for each in begun))
    end = max(each.end for each in behind)
    focus = Focus(None, tuple(sorted({each.producer_id for each in begun})), starts, end - 1)
    windows = await at.windows(starts[0], end, at.readers, focus)
    for each in behind:
        if not any(each.is_settled_by(windows[node]) for node in each.ended_on if node in windows):
            case.not_judged += 1
    return list(windows.values())


def _is_odd(facts: list[ReplicaFacts], now_ms: int) -> bool:
    """Is a transaction open here and not there, or for long, or dated in the future?"""
    opened = [{(each.producer_id, each.start_offset) for each in replica.open} for replica in facts]
    dates = [each.last_timestamp for replica in facts for each in replica.open]
    old = any(abs(now_ms - date) > LONG_MS for date in dates)
    return old or any(each != opened[0] for each in opened)


def _producers(case: Case) -> list[int]:
    """Of transactions that are open somewhere."""
    every = (each.producer_id for facts in case.furthest().values() for each in facts.open)
    return sorted(set(every))


def _states(
    told: Transactions, case: Case, unsure: str | None
) -> dict[int, CoordinatorState | None]:
    """By producer: None if no coordinator knows it. Nothing if one may that does not say so.

    A transaction may be open in several partitions, and its coordinator may have ended it in one.
    """
    known: dict[int, CoordinatorState | None] = {}
    if not told.complete:  # whoever says that it has ended it may have been replaced since
        return known
    for producer in _producers(case):
        each = told.by_producer.get(producer)
        if each is None and unsure is not None:
            continue
        known[producer] = None
        if each is not None:
            known[producer] = CoordinatorState(
                producer,
                each.epoch,
                each.state,
                each.started_ms,
                each.timeout_ms,
                case.plan.partition in each.partitions,
            )
    return known


def _is_at_it(told: Transactions, case: Case, producer: int) -> bool:
    each = told.by_producer.get(producer)
    return each is not None and each.is_open and case.plan.partition in each.partitions


async def _second_look(
    at: Bench, case: Case, first: list[ReplicaFacts], late: set[int]
) -> list[ReplicaFacts]:
    """Each replica once more, when it has got as far as all were."""
    far = max(facts.high_watermark for facts in first)
    patience = time.monotonic() + PATIENCE_S
    second = []
    for facts in first:
        reader = at.readers.get(facts.node)
        if reader is None:
            continue
        try:
            stands = await reader.offsets()
            while stands.high_watermark < far and facts.node not in late:
                await asyncio.sleep(PAUSE_S)
                stands = await reader.offsets()
                if time.monotonic() >= patience:
                    late.add(facts.node)
            opened = await reader.open_transactions()
        except SextonError as error:
            case.unread[facts.node] = f"{error.subject}: {error.why}"
            continue
        second.append(
            replace(
                facts,
                log_start=stands.log_start,
                last_stable=stands.last_stable,
                high_watermark=stands.high_watermark,
                log_end=stands.log_end,
                open=opened,
            )
        )
    return second
