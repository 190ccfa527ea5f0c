"""May this producer do that now?

The decisions of a coordinator, each from what it was asked and what it knows, and each with the
error that Apache Kafka 4.3 gives.

A producer is compared after everything else with TV2: while a step is under way it may already have
the producer id and epoch which that step is about to bring.
"""

from __future__ import annotations

from typing import assert_never

from sexton.base.kafka_errors import KafkaError
from sexton.machines.transaction_messages import (
    AddPartitions,
    AddPartitionsAnswer,
    Answer,
    Describe,
    DescribeAnswer,
    EndTransaction,
    EndTransactionAnswer,
    ForceAbort,
    ForceAbortAnswer,
    InitProducerId,
    InitProducerIdAnswer,
    List,
    ListAnswer,
    Request,
    VerifyPartitions,
    VerifyPartitionsAnswer,
)
from sexton.machines.transaction_states import (
    MAX_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    TV2,
    CompleteAbort,
    CompleteCommit,
    Ongoing,
    Prepare,
    Transaction,
)

# An error, an answer that needs no record, or None: go on.
Ending = KafkaError | EndTransactionAnswer | None


def malformed(event: Request, max_timeout_ms: int) -> KafkaError | None:
    if not isinstance(event, List) and not event.transactional_id:
        return KafkaError.INVALID_REQUEST
    if isinstance(event, InitProducerId):
        if (event.producer_id == NO_PRODUCER_ID) != (event.producer_epoch == NO_EPOCH):
            return KafkaError.INVALID_REQUEST
        if not 0 < event.timeout_ms <= max_timeout_ms:
            return KafkaError.INVALID_TRANSACTION_TIMEOUT
    return None


def goes_on(event: InitProducerId, old: Transaction) -> bool:
    """Whether it may be the last producer, if it says so; its epoch is compared later."""
    if event.producer_id in (NO_PRODUCER_ID, old.producer_id):
        return True
    exhausted = event.producer_epoch >= MAX_EPOCH - 1
    return event.producer_id == old.previous_producer_id and exhausted


def adding(event: AddPartitions, old: Transaction) -> KafkaError | None:
    if event.producer_id != old.producer_id:
        return KafkaError.INVALID_PRODUCER_ID_MAPPING
    if event.epoch != old.epoch:
        return KafkaError.PRODUCER_FENCED
    if isinstance(old.state, Ongoing) and set(event.partitions) <= set(old.partitions):
        return KafkaError.NONE
    return None


def verifying(event: VerifyPartitions, now: Transaction | None) -> VerifyPartitionsAnswer:
    """What is not replicated yet does not count: the partition's log has the last word."""
    if now is None or event.producer_id != now.producer_id:
        return _all_partitions(event, KafkaError.INVALID_PRODUCER_ID_MAPPING)
    if event.epoch != now.epoch:
        return _all_partitions(event, KafkaError.PRODUCER_FENCED)
    if isinstance(now.state, Prepare):
        return _all_partitions(event, KafkaError.CONCURRENT_TRANSACTIONS)
    members = set(now.partitions)
    none, abortable = KafkaError.NONE, KafkaError.TRANSACTION_ABORTABLE
    return VerifyPartitionsAnswer(
        tuple((p, none if p in members else abortable) for p in event.partitions)
    )


def ending(event: EndTransaction, old: Transaction, busy: bool) -> Ending:
    return _ending_tv2(event, old, busy) if event.version >= TV2 else _ending(event, old, busy)


def _ending(event: EndTransaction, old: Transaction, busy: bool) -> Ending:
    if event.producer_id != old.producer_id:
        return KafkaError.INVALID_PRODUCER_ID_MAPPING
    if event.epoch != old.epoch:
        return KafkaError.PRODUCER_FENCED
    if busy:
        return KafkaError.CONCURRENT_TRANSACTIONS
    match old.state:
        case Ongoing():
            return None
        case CompleteCommit() if event.commit:
            return EndTransactionAnswer(KafkaError.NONE)
        case CompleteAbort() if not event.commit:
            return EndTransactionAnswer(KafkaError.NONE)
        case _:
            return KafkaError.INVALID_TXN_STATE


def _ending_tv2(event: EndTransaction, old: Transaction, busy: bool) -> Ending:
    """The epoch before is the last request once more; the current one is the next transaction.

                       the epoch before                 the current epoch
                       abort           commit           abort             commit
    Empty              fenced          fenced           bumps the epoch   invalid state
    CompleteAbort      success         invalid state    bumps the epoch   invalid state
    CompleteCommit     invalid state   success          bumps the epoch   invalid state

    Only a step of TV2 bumped the epoch. After one of TV1 the epoch before belongs to a zombie, whom
    Apache Kafka takes for a retry and answers with success.
    """
    if busy:
        return KafkaError.CONCURRENT_TRANSACTIONS
    bumped = event.producer_id == old.producer_id and event.epoch + 1 == old.epoch
    rotated = (event.producer_id, event.epoch) == (old.previous_producer_id, MAX_EPOCH - 1)
    again = old.version >= TV2 and (bumped or (rotated and old.epoch == 0))
    if event.producer_id != old.producer_id and not again:
        return KafkaError.INVALID_PRODUCER_ID_MAPPING
    match old.state:
        case CompleteCommit() | CompleteAbort() if again:
            if event.commit != isinstance(old.state, CompleteCommit):
                return KafkaError.INVALID_TXN_STATE
            return EndTransactionAnswer(KafkaError.NONE, old.producer_id, old.epoch)
        case _ if (event.producer_id, event.epoch) != (old.producer_id, old.epoch):
            return KafkaError.PRODUCER_FENCED
        case Ongoing():
            return None
        case _:
            return KafkaError.INVALID_TXN_STATE if event.commit else None


def refusal(event: Request, error: KafkaError) -> Answer:
    match event:
        case InitProducerId():
            return Answer(event.caller, InitProducerIdAnswer(error))
        case AddPartitions():
            return Answer(event.caller, AddPartitionsAnswer(error))
        case VerifyPartitions():
            return Answer(event.caller, _all_partitions(event, error))
        case EndTransaction():
            return Answer(event.caller, EndTransactionAnswer(error))
        case ForceAbort():
            return Answer(event.caller, ForceAbortAnswer(error))
        case Describe():
            return Answer(event.caller, DescribeAnswer(error, event.transactional_id))
        case List():
            return Answer(event.caller, ListAnswer(error))
        case _:
            assert_never(event)


def _all_partitions(event: VerifyPartitions, error: KafkaError) -> VerifyPartitionsAnswer:
    return VerifyPartitionsAnswer(tuple((partition, error) for partition in event.partitions))
