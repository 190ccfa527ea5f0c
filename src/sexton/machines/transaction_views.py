"""What an operator sees of a coordinator's transactions: DescribeTransactions, ListTransactions."""

from __future__ import annotations

from sexton.base.kafka_errors import KafkaError
from sexton.machines.transaction_entries import Entry
from sexton.machines.transaction_messages import Describe, DescribeAnswer, List, ListAnswer, Listed


def describe(event: Describe, entry: Entry | None) -> DescribeAnswer:
    """Once it is decided, the partitions are those that still have no marker."""
    if entry is None or entry.now is None:
        return DescribeAnswer(KafkaError.TRANSACTIONAL_ID_NOT_FOUND, event.transactional_id)
    now = entry.now
    return DescribeAnswer(
        error=KafkaError.NONE,
        transactional_id=event.transactional_id,
        state=now.status.title,
        timeout_ms=now.timeout_ms,
        start_ms=now.start_ms,
        producer_id=now.producer_id,
        epoch=now.epoch,
        partitions=tuple(entry.sending.left) if entry.sending else now.partitions,
    )


def listing(event: List, entries: dict[str, Entry], now_ms: int) -> ListAnswer:
    listed = []
    for transactional_id in sorted(entries):
        now = entries[transactional_id].now
        if now is None or (event.states and now.status.title not in event.states):
            continue
        if event.producer_ids and now.producer_id not in event.producer_ids:
            continue
        if event.longer_than_ms >= 0 and now_ms - now.start_ms <= event.longer_than_ms:
            continue
        listed.append(Listed(transactional_id, now.producer_id, now.status.title))
    return ListAnswer(KafkaError.NONE, tuple(listed))
