"""What real Kafka is asked to write, one case a topic.

A case says in a sentence what its log holds, which topic settings it needs, and writes it. Keys and
values are fixed. So are the timestamps, where no transaction is in play: a transaction's marker
carries the broker's clock, and a record from long before it would roll the segment (and rolling by
time is how the cases get several segments: `Writer.roll` moves their clock on by an hour).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tools.scripted_producer import Headers, Producer, ScriptedProducers

FIXED_START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
FOREVER_MS = 2**63 - 1
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Record = tuple[bytes | None, bytes | None] | tuple[bytes | None, bytes | None, Headers]


@dataclass(slots=True)
class Writer:
    """Writes one case's topic, with a clock of its own."""

    producers: ScriptedProducers
    topic: str
    now_ms: int

    def plain(self, name: str = "plain", **options: object) -> Producer:
        """A producer without id and sequence, as before KIP-98."""
        return self.producers.open(f"{self.topic}/{name}", enable_idempotence="false", **options)

    def idempotent(self, name: str, **options: object) -> Producer:
        return self.producers.open(f"{self.topic}/{name}", **options)

    def transactional(self, name: str, **options: object) -> Producer:
        name = f"{self.topic}/{name}"
        timeout = {"transaction_timeout_ms": 900_000}  # an open one must outlive the making of all
        return self.producers.open(name, transactional_id=name, **timeout, **options)

    def batch(self, producer: Producer, *records: Record) -> None:
        """One batch, a millisecond between two records."""
        for key, value, *headers in records:
            producer.send(self.topic, key, value, self.now_ms, headers[0] if headers else ())
            self.now_ms += 1
        producer.flush()

    def roll(self) -> None:
        """The next record starts a new segment (segment.ms is less than an hour)."""
        self.now_ms += HOUR_MS


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    holds: str
    write: Callable[[Writer], None]
    configs: Mapping[str, object] = field(default_factory=dict)
    live: bool = False  # needs today's clock, because markers carry it
    cleanings: int = 0  # how often the cleaner is to pass over it
    print_data: bool = True  # whether the golden dump shows keys and values
    after_restart: Callable[[Writer], None] | None = None


BASE_CONFIGS: dict[str, object] = {
    "segment.ms": HOUR_MS // 2,
    "segment.jitter.ms": 0,
    "retention.ms": -1,
    "index.interval.bytes": 1,  # an index entry for every batch but the first
    "message.timestamp.before.max.ms": FOREVER_MS,
    "message.timestamp.after.max.ms": FOREVER_MS,
    "file.delete.delay.ms": 0,
}
COMPACTED: dict[str, object] = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": 0,
    "min.compaction.lag.ms": FOREVER_MS,  # frozen until make_fixtures releases it
    "delete.retention.ms": 24 * HOUR_MS,
}


def all_cases() -> list[Case]:
    return [*_codec_cases(), *_shape_cases(), *_transaction_cases(), *_cleaned_cases()]


# -- codecs -------------------------------------------------------------------------------------


def _codec_cases() -> list[Case]:
    cases = []
    for codec in CODECS:
        holds = f"Three batches that the Java producer wrote with compression.type={codec}."
        cases.append(Case(f"codec-{codec}", holds, _with_codec(codec)))
    for codec in CODECS[1:]:
        holds = f"The same, sent uncompressed and compressed by the broker: the topic says {codec}."
        recompress = {"compression.type": codec}
        cases.append(Case(f"broker-{codec}", holds, _with_codec("none"), recompress))
    holds = "The same, sent as lz4 and uncompressed by the broker."
    uncompress = {"compression.type": "uncompressed"}
    cases.append(Case("broker-uncompressed", holds, _with_codec("lz4"), uncompress))
    for codec in CODECS[1:]:
        holds = (
            f"Two {codec} batches: `noise` = 3,000 random bytes, which no codec makes smaller, and "
            "`big` = `0123456789abcdef` 10,000 times, which takes several blocks."
        )
        cases.append(Case(f"large-{codec}", holds, _large(codec), print_data=False))
    return cases


def _with_codec(codec: str) -> Callable[[Writer], None]:
    def write(writer: Writer) -> None:
        producer = writer.plain(compression_type=codec)
        writer.batch(producer, (b"k", b"v"))  # smaller than what compression makes of it
        pairs = [(b"key-%02d" % (n % 7), b"value %d " % n * 3) for n in range(30)]
        writer.batch(producer, *pairs)
        noise = random.Random(7).randbytes(300).hex().encode()
        writer.batch(producer, (b"noise", noise), (b"nothing", None), (None, b""))

    return write


def _large(codec: str) -> Callable[[Writer], None]:
    def write(writer: Writer) -> None:
        producer = writer.plain(compression_type=codec)
        writer.batch(producer, (b"noise", random.Random(7).randbytes(3000)))
        writer.batch(producer, (b"big", b"0123456789abcdef" * 10_000))

    return write


# -- shapes of records and logs -----------------------------------------------------------------


def _shape_cases() -> list[Case]:
    append_time = {"message.timestamp.type": "LogAppendTime"}
    return [
        Case("shapes", "Headers, null and empty keys and values, bytes that are no text.", _shapes),
        Case(
            "append-time",
            "LogAppendTime: uncompressed and lz4 batches stamped by the broker.",
            _append_time,
            append_time,
        ),
        Case("out-of-order", "CreateTime that goes back, and a time long ago.", _out_of_order),
        Case("segments", "Four segments with three batches each.", _segments),
        Case(
            "idempotent",
            "Two idempotent producers by turns, three batches each, and one without an id.",
            _idempotent,
        ),
        Case(
            "tombstones", "A compacted topic with tombstones, not cleaned.", _tombstones, COMPACTED
        ),
        Case(
            "leader-epochs",
            "Two batches, a restart of the broker, two more: two leader epochs.",
            _epoch_batches,
            after_restart=_epoch_batches,
        ),
        Case("empty", "A partition that nobody has written to.", lambda _: None),
    ]


def _shapes(writer: Writer) -> None:
    producer = writer.plain()
    headers: Headers = [("h", b"1"), ("h", b"2"), ("none", None), ("", b""), ("bytes", b"\x00\xff")]
    writer.batch(producer, (b"k", b"v", headers))
    writer.batch(producer, (None, b"v"), (b"k", None), (None, None), (b"", b""), (b"", None))
    writer.batch(producer, (b"\x00\x80\xff", b"\xff\xfe\x00"), ("ключ".encode(), "値".encode()))
    many: Headers = [(f"name-{n}", b"%d" % n) for n in range(100)]
    writer.batch(producer, (b"many", b"headers", many), (b"k" * 70, b"v" * 300))


def _append_time(writer: Writer) -> None:
    for codec in ("none", "lz4"):
        producer = writer.plain(codec, compression_type=codec)
        writer.batch(producer, (b"a", b"1"), (b"b", b"2"))
        writer.batch(producer, (b"a", b"3"))


def _out_of_order(writer: Writer) -> None:
    producer = writer.plain()
    for shift in (0, -500, 1000, -2000):
        writer.now_ms += shift
        writer.batch(producer, (b"a", b"%d" % shift), (b"b", b"%d" % shift))
    writer.now_ms = 0
    writer.batch(producer, (b"epoch", b"1970"))


def _segments(writer: Writer) -> None:
    producer = writer.plain()
    for segment in range(4):
        for batch in range(3):
            pairs = [(b"k%d" % n, b"%d.%d.%d" % (segment, batch, n)) for n in range(batch + 1)]
            writer.batch(producer, *pairs)
        writer.roll()


def _idempotent(writer: Writer) -> None:
    one, two = writer.idempotent("one"), writer.idempotent("two", compression_type="zstd")
    nobody = writer.plain()
    for n in range(3):
        writer.batch(one, (b"a", b"one %d" % n), (b"b", b"one %d" % n))
        writer.batch(two, *((b"k%d" % k, b"two %d" % n) for k in range(n + 1)))
    writer.batch(nobody, (b"a", b"nobody"))


def _tombstones(writer: Writer) -> None:
    producer = writer.plain()
    writer.batch(producer, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    writer.batch(producer, (b"a", None))
    writer.batch(producer, (b"b", None), (b"d", b"1"), (b"d", None))


def _epoch_batches(writer: Writer) -> None:
    producer = writer.plain(f"at {writer.now_ms}")
    writer.batch(producer, (b"a", b"1"), (b"b", b"1"))
    writer.batch(producer, (b"a", b"2"))


# -- transactions -------------------------------------------------------------------------------


def _transaction_cases() -> list[Case]:
    return [
        Case("txn-committed", "One committed transaction of two batches.", _committed, live=True),
        Case(
            "txn-aborted", "One aborted transaction, plain records around it.", _aborted, live=True
        ),
        Case(
            "txn-open",
            "A transaction committed, one still open, records after it.",
            _open,
            live=True,
        ),
        Case(
            "txn-interleaved",
            "Two producers whose transactions overlap: one commits, one aborts, twice.",
            _interleaved,
            live=True,
        ),
        Case(
            "txn-many",
            "One producer, five transactions, every second aborted: how epochs move.",
            _many,
            live=True,
        ),
        Case(
            "txn-segments",
            "Aborted and committed transactions that span three segments; lz4; one stays open.",
            _txn_segments,
            live=True,
        ),
    ]


def _committed(writer: Writer) -> None:
    producer = writer.transactional("p")
    producer.begin()
    writer.batch(producer, (b"a", b"1"), (b"b", b"1"))
    writer.batch(producer, (b"c", b"1"))
    producer.commit()


def _aborted(writer: Writer) -> None:
    plain, producer = writer.plain(), writer.transactional("p")
    writer.batch(plain, (b"a", b"before"))
    producer.begin()
    writer.batch(producer, (b"a", b"1"), (b"b", b"1"))
    writer.batch(plain, (b"a", b"between"))
    writer.batch(producer, (b"c", b"1"))
    producer.abort()
    writer.batch(plain, (b"a", b"after"))


def _open(writer: Writer) -> None:
    plain, producer = writer.plain(), writer.transactional("p")
    producer.begin()
    writer.batch(producer, (b"a", b"1"))
    producer.commit()
    producer.begin()
    writer.batch(producer, (b"b", b"1"), (b"c", b"1"))
    writer.batch(plain, (b"d", b"after"))


def _interleaved(writer: Writer) -> None:
    one, two = writer.transactional("one"), writer.transactional("two")
    for n in range(2):
        one.begin()
        writer.batch(one, (b"a", b"one %d" % n))
        two.begin()
        writer.batch(two, (b"a", b"two %d" % n), (b"b", b"two %d" % n))
        writer.batch(one, (b"c", b"one %d" % n))
        one.abort()
        writer.batch(two, (b"d", b"two %d" % n))
        two.commit()
        one, two = two, one


def _many(writer: Writer) -> None:
    producer = writer.transactional("p")
    for n in range(5):
        producer.begin()
        writer.batch(producer, (b"a", b"%d" % n), (b"k%d" % n, b"%d" % n))
        if n % 2:
            producer.abort()
        else:
            producer.commit()


def _txn_segments(writer: Writer) -> None:
    one = writer.transactional("one", compression_type="lz4")
    two = writer.transactional("two", compression_type="lz4")
    one.begin()
    writer.batch(one, *((b"k%d" % n, b"one") for n in range(5)))
    two.begin()
    writer.batch(two, (b"a", b"two"))
    writer.roll()
    writer.batch(one, (b"a", b"one"))
    two.commit()
    two.begin()
    writer.batch(two, (b"b", b"two"))
    writer.roll()
    writer.batch(two, (b"c", b"two"))
    one.abort()
    two.abort()
    one.begin()
    writer.batch(one, (b"open", b"one"))


# -- logs that the cleaner has passed over ------------------------------------------------------


def _cleaned_cases() -> list[Case]:
    soon = {**COMPACTED, "delete.retention.ms": 0}
    cases = [
        Case(
            f"cleaned-{codec}",
            f"A cleaned log of {codec} batches: some whole, some with gaps, some gone, a horizon.",
            _to_clean(codec),
            COMPACTED,
            cleanings=1,
        )
        for codec in CODECS
    ]
    cases.append(
        Case(
            "cleaned-tombstones-twice",
            "Cleaned twice with delete.retention.ms=0: the tombstones are gone.",
            _to_clean("none"),
            soon,
            cleanings=2,
        )
    )
    for name, live, what in (
        ("cleaned-idempotent", True, "the last batch of each producer stays, emptied"),
        ("cleaned-idempotent-expired", False, "their producers have expired, and the batches go"),
    ):
        holds = f"Idempotent batches whose records are all superseded: {what}."
        cases.append(Case(name, holds, _idempotent_to_clean, COMPACTED, live=live, cleanings=1))
    for name, configs, cleanings, what in (
        ("cleaned-txn", COMPACTED, 1, "once: aborted records are gone, markers stay as they are"),
        ("cleaned-txn-twice", COMPACTED, 2, "twice: markers without data have a delete horizon"),
        ("cleaned-txn-thrice", soon, 3, "three times: those markers are gone, or emptied"),
    ):
        holds = f"Transactions, cleaned {what}."
        cases.append(Case(name, holds, _txn_to_clean, configs, live=True, cleanings=cleanings))
    return cases


def _to_clean(codec: str) -> Callable[[Writer], None]:
    def write(writer: Writer) -> None:
        producer = writer.plain(compression_type=codec)
        writer.batch(producer, (b"a", b"1"), (b"b", b"1"), (b"d", b"1"))  # superseded, all of it
        writer.batch(producer, *((b"k%d" % n, b"value %d" % n) for n in range(20)))
        writer.batch(producer, (b"a", b"2"), (b"stays", b"here"), (b"b", b"2"))
        writer.roll()
        writer.batch(producer, (b"c", b"2"), (b"d", None), (b"e", b"1"))
        writer.batch(producer, *((b"k%d" % n, b"newer %d" % n) for n in range(3, 17, 2)))
        writer.batch(producer, (b"a", b"3"))
        writer.roll()
        headers: Headers = [("h", b"1")]
        writer.batch(producer, (b"b", b"3"), (b"f", b"1", headers), (b"a", b"4"))
        end_to_clean(writer, producer)

    return write


def _idempotent_to_clean(writer: Writer) -> None:
    one, two = writer.idempotent("one"), writer.idempotent("two", compression_type="lz4")
    writer.batch(one, (b"a", b"1"), (b"b", b"1"))
    writer.batch(one, (b"a", b"2"))
    writer.batch(two, (b"a", b"3"), (b"c", b"1"))
    writer.roll()
    writer.batch(writer.plain(), (b"a", b"4"), (b"b", b"2"), (b"c", b"2"))
    end_to_clean(writer, writer.plain("end"))


def _txn_to_clean(writer: Writer) -> None:
    one, two, plain = writer.transactional("one"), writer.transactional("two"), writer.plain()
    one.begin()
    writer.batch(one, (b"a", b"1"), (b"b", b"1"))
    one.commit()
    two.begin()
    writer.batch(two, (b"a", b"aborted"), (b"x", b"aborted"))
    two.abort()
    one.begin()
    writer.batch(one, (b"c", b"aborted"))
    two.begin()
    writer.batch(two, (b"d", b"1"))
    one.abort()
    two.commit()
    writer.roll()
    one.begin()
    writer.batch(one, (b"a", b"2"), (b"e", b"1"))
    one.commit()
    writer.batch(plain, (b"b", None), (b"d", b"2"))
    writer.roll()
    two.begin()
    writer.batch(two, (b"a", b"aborted"))
    two.abort()
    end_to_clean(writer, plain)


def end_to_clean(writer: Writer, producer: Producer) -> None:
    """A last record in a segment of its own: the cleaner never touches the active segment."""
    writer.roll()
    writer.batch(producer, (b"end", b"%d" % writer.now_ms))
