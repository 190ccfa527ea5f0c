"""An audit page with one finding of each code, written by hand from what the codes mean.

A log is written as in the docs: `0 @7 k=1`, `1 @7 abort`, `2 -k`, `3-5 empty`; `~` before a key: a
read_committed consumer does not get it.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sexton.audit.finding import AuditFinding, TransactionEvidence, Verdict
from sexton.audit.window import Kind, LogWindow, Slot
from sexton.base.digests import hex_digest
from sexton.base.partitions import TopicPartition
from sexton.report.audit_page import AuditPage, PartitionRead, ReplicaRead, Unread

NOON = 1_794_744_000_000  # 2026-11-15 12:00:00 UTC
HOUR = 3_600_000
HOSTILE = b"<script>alert('k')</script>\x1b[31m\xe2\x80\xae"
_SLOT = re.compile(
    r"(?P<first>\d+)(?:-(?P<last>\d+))? (?:@(?P<producer>\d+)(?:e(?P<epoch>\d+))? )?"
    r"(?P<what>commit|abort|empty|damaged|gone|-\S+|~?\S+=\S+)"
)


def value_digest(value: str) -> str:
    return hex_digest(value.encode())


def window(
    node: int,
    log: str,
    *,
    end: int,
    first: int = 0,
    stable: int | None = None,
    high: int | None = None,
) -> LogWindow:
    slots = tuple(slot for line in log.split(",") if (slot := _slot(line.strip())))
    held = {at for slot in slots for at in range(slot.offset, slot.last_offset + 1)}
    stable = end if stable is None else stable
    gaps: list[tuple[int, int]] = []
    for at in range(first, min(end, stable)):
        empty = any(s.kind == "empty" and s.offset <= at <= s.last_offset for s in slots)
        if at in held and not empty:
            continue
        if gaps and gaps[-1][1] == at:
            gaps[-1] = (gaps[-1][0], at + 1)
        else:
            gaps.append((at, at + 1))
    return LogWindow(
        node, first, end, 0, stable, end if high is None else high, slots, tuple(gaps), 0
    )


def _slot(line: str) -> Slot | None:
    match = _SLOT.fullmatch(line)
    assert match is not None, line
    what, producer = match["what"], int(match["producer"] or -1)
    if what == "gone":
        return None
    first = int(match["first"])
    last = int(match["last"] or first)
    kind: Kind = "value"
    key: bytes | None = None
    digest = None
    control = False
    shown: bool | None = True
    if what in ("commit", "abort"):
        kind, control = ("commit" if what == "commit" else "abort"), True
    elif what in ("empty", "damaged"):
        kind = "empty" if what == "empty" else "damaged"
    elif what.startswith("-"):
        kind, key = "tombstone", what[1:].encode()
    else:
        shown = not what.startswith("~")
        name, value = what.lstrip("~").split("=")
        key, digest = name.encode(), value_digest(value)
    return Slot(
        first, last, kind, key, digest, NOON + first * 60_000, producer, int(match["epoch"] or 0),
        producer >= 0, first, last, shown, control,
    )  # fmt: skip


def _finding(code: str, partition: TopicPartition, **fields: object) -> AuditFinding:
    plain: dict[str, object] = {
        "code": code,
        "severity": "error",
        "partition": partition,
        "replicas": (3,),
        "key": None,
        "offsets": {},
        "values": {},
        "transactions": (),
        "began_after_ms": NOON - 30 * HOUR,
        "began_before_ms": NOON,
        "remedy": "let broker 3 copy the partition anew",
        "windows": (),
    }
    return AuditFinding(**(plain | fields))  # type: ignore[arg-type]


ORDERS = TopicPartition("orders", 3)
PAYMENTS = TopicPartition("payments", 0)
EVENTS = TopicPartition("events", 1)

TOMBSTONE = _finding(
    "tombstone-divergence",
    ORDERS,
    message="broker 3 still shows a key that brokers 1 and 2 have deleted",
    key=b"k",
    offsets={1: None, 2: 18, 3: 17},
    values={1: None, 2: None, 3: value_digest("1")},
    verdict=Verdict(
        (1, 2), "certain",
        "broker 2 holds a delete of the key at 18, and broker 3's log is past 18 without it",
    ),
    windows=(
        window(1, "14 a=1, 15 b=1, 19 c=1, 20 d=5, 21 e=1", first=14, end=22),
        window(2, "14 a=1, 15 b=1, 16 g=2, 18 -k, 19 c=1, 20 d=5, 21 e=1", first=14, end=22),
        window(3, "14 a=1, 15 b=1, 16 g=2, 17 k=1, 19 c=1, 20 d=5, 21 e=1", first=14, end=22),
    ),
)  # fmt: skip
ABORTED = _finding(
    "aborted-as-committed",
    PAYMENTS,
    message="broker 3 shows a record as committed that brokers 1 and 2 know to be aborted",
    key=b"k",
    offsets={1: None, 2: None, 3: 40},
    values={1: None, 2: None, 3: value_digest("100 EUR")},
    transactions=(
        TransactionEvidence(1, 7001, 4, None, 43, "aborted"),
        TransactionEvidence(2, 7001, 4, 40, 43, "aborted"),
        TransactionEvidence(3, 7001, 4, 40, 47, "committed"),
    ),
    verdict=Verdict(
        (1, 2), "certain",
        "a transaction has one marker; broker 3 lacks the ABORT at 43 and took the producer's next"
        " marker, a COMMIT at 47, for it",
    ),
    windows=(
        window(1, "38 z=1, 43 @7001e4 abort, 46 @7001e5 j=2, 47 @7001e5 commit", first=38, end=49),
        window(
            2,
            "38 z=1, 40 @7001e4 ~k=100, 43 @7001e4 abort, 46 @7001e5 j=2, 47 @7001e5 commit",
            first=38, end=49,
        ),
        window(
            3,
            "38 z=1, 39 y=3, 40 @7001e4 k=100, 46 @7001e5 j=2, 47 @7001e5 commit",
            first=38, end=49,
        ),
    ),
)  # fmt: skip
COMMITTED = _finding(
    "committed-as-aborted",
    PAYMENTS,
    message="broker 3 hides a record that was committed",
    offsets={1: 60, 2: 60, 3: 60},
    transactions=(
        TransactionEvidence(1, 7002, 0, 60, 61, "committed"),
        TransactionEvidence(3, 7002, 0, 60, 66, "aborted"),
    ),
    verdict=Verdict(
        (1, 2), "likely", "the COMMIT at 61 came before the ABORT at 66: each transaction has one"
    ),
    windows=(
        window(1, "60 @7002 k=1, 61 @7002 commit, 63 z=1, 65 @7002 j=1, 66 @7002 abort",
               first=60, end=68),
        window(2, "60 @7002 k=1, 61 @7002 commit, 63 z=1, 65 @7002 ~j=1, 66 @7002 abort",
               first=60, end=68),
        window(3, "60 @7002 ~k=1, 63 z=1, 65 @7002 ~j=1, 66 @7002 abort", first=60, end=68),
    ),
)  # fmt: skip
STUCK = _finding(
    "stuck-partition",
    PAYMENTS,
    message="broker 3 waits at 101 for the end of a transaction that was committed at 104",
    transactions=(
        TransactionEvidence(1, 7003, 2, 101, 104, "committed"),
        TransactionEvidence(3, 7003, 2, 101, None, "open"),
    ),
    verdict=Verdict((1, 2), "certain", "broker 3's log is past the marker that the others met"),
    windows=(
        window(1, "100 a=1, 101 @7003e2 b=1, 104 @7003e2 commit, 105 c=1, 106 d=1",
               first=100, end=108),
        window(2, "100 a=1, 101 @7003e2 b=1, 104 @7003e2 commit, 105 c=1, 106 d=1",
               first=100, end=108),
        window(3, "100 a=1", first=100, end=108, stable=101, high=108),
    ),
)  # fmt: skip
MISSING = _finding(
    "missing-record",
    ORDERS,
    message="broker 2 does not hold a committed record that brokers 1 and 3 hold",
    replicas=(2,),
    key=HOSTILE,
    offsets={1: 70, 2: None, 3: 70},
    values={1: value_digest("v"), 2: None, 3: value_digest("v")},
    verdict=Verdict((1, 3), "likely", "two of three replicas hold it"),
    remedy="let broker 2 copy the partition anew",
    windows=tuple(
        replace(each, slots=tuple(
            replace(slot, key=HOSTILE) if slot.key == b"k" else slot for slot in each.slots
        ))
        for each in (
            window(1, "68 a=1, 70 k=v, 71 b=1, 72 c=1", first=68, end=73),
            window(2, "68 a=1, 71 b=1, 72 c=1", first=68, end=73),
            window(3, "68 a=1, 70 k=v, 71 b=1, 72 c=1", first=68, end=73),
        )
    ),
)  # fmt: skip
MISMATCH = _finding(
    "marker-mismatch",
    PAYMENTS,
    severity="warning",
    message="on broker 3, data of epoch 4 is closed by a marker of epoch 9",
    transactions=(TransactionEvidence(3, 7001, 4, 200, 205, "committed"),),
    verdict=Verdict(None, "unknown", "the other replicas hold nothing of this transaction"),
    remedy="ask the producer's owner how the transaction ended",
    windows=(window(3, "200 @7001e4 k=1, 203-204 empty, 205 @7001e9 commit", first=200, end=207),),
)
HANGING = _finding(
    "hanging-transaction",
    EVENTS,
    severity="warning",
    replicas=(1, 2, 3),
    message="a transaction is open since 500 on every replica, and nobody knows it any more",
    transactions=tuple(TransactionEvidence(n, 7009, 0, 500, None, "open") for n in (1, 2, 3)),
    verdict=Verdict((), "certain", "nobody is going to end it"),
    remedy="end the transaction as aborted if its producer is gone",
    windows=tuple(
        window(n, "498 a=1, 499 b=1", first=498, end=504, stable=500, high=504) for n in (1, 2, 3)
    ),
)
CORRUPT = _finding(
    "corrupt-batch",
    EVENTS,
    replicas=(2,),
    message="the batch at 310 on broker 2 has a wrong checksum",
    offsets={2: 310},
    verdict=Verdict((1, 3), "certain", "their checksums are right"),
    remedy="let broker 2 copy the partition anew, and check its disk",
    began_after_ms=None,
    windows=(
        window(1, "309 a=1, 310 b=1, 311 c=1, 312 d=1", first=309, end=313),
        window(2, "309 a=1, 310-311 damaged, 312 d=1", first=309, end=313),
        window(3, "309 a=1, 310 b=1, 311 c=1, 312 d=1", first=309, end=313),
    ),
)
GAP = _finding(
    "offset-gap",
    EVENTS,
    severity="note",
    replicas=(1,),
    message="offsets 120 to 140 are on no replica, and nothing says why",
    offsets={1: 120},
    verdict=Verdict(None, "unknown", "no replica holds them"),
    began_after_ms=None,
    began_before_ms=None,
    remedy="compare with what was written",
)
EACH = (
    TOMBSTONE, ABORTED, COMMITTED, STUCK, MISSING, MISMATCH, HANGING, CORRUPT, GAP,
)  # fmt: skip


def replica(node: int, *, records: int = 1_204_332, leader: bool = False) -> ReplicaRead:
    return ReplicaRead(
        node, 0, 1_900_120, 1_900_127, 1_900_120, records, records * 104, 400_211, 1_288, 40_211,
        912, leader=leader,
    )  # fmt: skip


def read(partition: TopicPartition, *, compacted: bool = True) -> PartitionRead:
    return PartitionRead(
        partition, 0, 1_900_120, compacted,
        (replica(1, leader=True), replica(2), replica(3, records=1_204_335)),
    )  # fmt: skip


PAGE = AuditPage(
    version="0.1.0",
    cluster_id="Nk018hRAQFytWskYqtQduw",
    bootstrap="kafka-1.example:9092",
    started_ms=NOON + HOUR,
    finished_ms=NOON + HOUR + 83_200,
    partitions=(
        read(ORDERS),
        read(TopicPartition("orders", 4)),
        read(PAYMENTS),
        read(EVENTS, compacted=False),
        read(TopicPartition("customers", 0)),
    ),
    findings=EACH,
    incomplete=(
        Unread(
            "customers-0 on broker 2", "broker 2 does not answer", TopicPartition("customers", 0)
        ),
    ),
    acknowledged=2,
    limits=("Only records since 2026-11-15 06:00:00 UTC were compared.",),
    options={"--topic": "orders, payments, events, customers", "--since": "6h"},
)
CLEAN = replace(PAGE, findings=(), incomplete=(), limits=(), acknowledged=0)
