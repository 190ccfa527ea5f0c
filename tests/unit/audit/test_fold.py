"""What a fold says of a log, beside a slow and obvious way to work it out."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from sexton.audit import fold as folding
from sexton.audit.compare import differing_buckets, key_suspicions
from sexton.audit.facts import BUCKETS, BucketEntries, ReplicaFacts, Scope
from sexton.audit.fold import Fold
from sexton.audit.fold_kernels import BUCKET_SHIFT
from sexton.audit.key_entries import HIGHEST, fingerprint, value_digest
from sexton.base.partitions import TopicPartition
from sexton.records import Spans, encode, rows
from sexton.records.layout import Codec
from sexton.records.tables import Array
from tests.unit.audit.replicas import Audit, TextReplica

SEED = 0xFEDCBA9876543210  # more than a signed integer holds


def scope(end: int, *, start: int = 0, compacted: bool = True) -> Scope:
    return Scope(TopicPartition("t", 0), start, end, compacted, SEED)


def log_of(
    keys: Array, *, codec: Codec = Codec.NONE, values: dict[int, bytes] | None = None
) -> bytes:
    """A record for each number: its key, and a value that tells the offset."""
    items = [b"value of %d" % offset for offset in range(len(keys))]
    for offset, value in (values or {}).items():
        items[offset] = value
    columns = rows(
        np.arange(len(keys), dtype=np.int64) + 1_700_000_000_000,
        Spans.from_list([b"key-%d" % key for key in keys.tolist()]),
        Spans.from_list(items),
        batch_rows=97,
        codec=codec,
    )
    return encode(columns)


def facts_of(data: bytes, end: int, readings: int = 1, **options: int) -> ReplicaFacts:
    fold = Fold(scope(end), **options)  # type: ignore[arg-type]
    fold.take(data, ())
    made = 1
    while fold.again():
        fold.take(data, ())
        made += 1
    assert made >= readings
    return facts(fold, end)


def facts(fold: Fold, end: int, node: int = 1) -> ReplicaFacts:
    return fold.facts(
        node, log_start=0, last_stable=end, high_watermark=end, log_end=end, read_to=end
    )


KEYS = np.random.default_rng(5).integers(0, 30_000, 20_000)


def test_the_order_and_number_of_older_records_does_not_matter() -> None:
    """The last record of each key alone has the same digests as the whole log."""
    whole = log_of(KEYS)
    last = {key: offset for offset, key in enumerate(KEYS.tolist())}
    kept = sorted(last.values())
    fold = Fold(scope(len(KEYS)))
    for offset in kept[:200]:
        fold.take(_single(KEYS, offset), ())
    fold.again()
    some = frozenset(int(key) for key in KEYS[kept[:200]])
    expected = Fold(scope(kept[199] + 1))
    expected.take(_only(KEYS, some, kept[199] + 1), ())
    expected.again()
    assert facts(fold, len(KEYS)).digests == facts(expected, len(KEYS)).digests
    assert facts_of(whole, len(KEYS)).keys == len(last)


def _single(keys: Array, offset: int) -> bytes:
    columns = rows(
        np.array([offset + 1_700_000_000_000], np.int64),
        Spans.from_list([b"key-%d" % keys[offset]]),
        Spans.from_list([b"value of %d" % offset]),
        base_offset=offset,
    )
    return encode(columns)


def _only(keys: Array, wanted: frozenset[int], end: int) -> bytes:
    """Every record of some keys, each in a batch of its own, as if the others were cleaned away."""
    return b"".join(_single(keys, offset) for offset in range(end) if int(keys[offset]) in wanted)


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_compression_does_not_matter(codec: Codec) -> None:
    plain, packed = log_of(KEYS), log_of(KEYS, codec=codec)
    assert facts_of(plain, len(KEYS)).digests == facts_of(packed, len(KEYS)).digests


def test_one_other_value_changes_one_bucket() -> None:
    last = {key: offset for offset, key in enumerate(KEYS.tolist())}
    key, offset = next(iter(last.items()))
    one = facts_of(log_of(KEYS), len(KEYS))
    other = facts_of(log_of(KEYS, values={offset: b"another"}), len(KEYS))
    bucket = fingerprint(b"key-%d" % key, SEED) >> BUCKET_SHIFT
    assert differing_buckets([one, other]) == {bucket}


def test_a_value_that_was_overwritten_changes_nothing() -> None:
    first = {key: offset for offset, key in reversed(list(enumerate(KEYS.tolist())))}
    last = {key: offset for offset, key in enumerate(KEYS.tolist())}
    old = next(offset for key, offset in first.items() if last[key] != offset)
    one = facts_of(log_of(KEYS), len(KEYS))
    other = facts_of(log_of(KEYS, values={old: b"another"}), len(KEYS))
    assert differing_buckets([one, other]) == frozenset()


def test_little_memory_means_more_readings_and_the_same_answer() -> None:
    data = log_of(KEYS)
    easily, hardly = facts_of(data, len(KEYS)), facts_of(data, len(KEYS), 5, most_keys=1_500)
    assert (easily.digests, easily.keys) == (hardly.digests, hardly.keys)
    assert (easily.records, easily.batches, easily.bytes) == (20_000, 207, len(data))
    assert (hardly.records, hardly.batches, hardly.bytes) == (20_000, 207, len(data))
    assert easily.first_repeat == hardly.first_repeat == _first_repeat(KEYS)


def _first_repeat(keys: Array) -> int:
    met: set[int] = set()
    for offset, key in enumerate(keys.tolist()):
        if key in met:
            return offset
        met.add(key)
    raise AssertionError


def test_records_outside_of_the_scope_do_not_count() -> None:
    data = log_of(KEYS)
    fold = Fold(scope(15_050, start=3_010))
    fold.take(data, ())
    assert not fold.again()
    assert facts(fold, 15_050).keys == len(set(KEYS[3_010:15_050].tolist()))


# ── the keys of some buckets ──


def entries_of(data: bytes, end: int, node: int, **options: object) -> BucketEntries:
    fold = Fold(scope(end), buckets=frozenset(range(BUCKETS)), **options)  # type: ignore[arg-type]
    fold.take(data, ())
    return fold.entries(
        node, log_start=0, last_stable=end, high_watermark=end, log_end=end, read_to=end
    )


def test_entries_are_the_last_records_of_their_keys() -> None:
    keys, end = KEYS[:3000], 2500
    found = entries_of(log_of(keys), end, 1)
    last = {b"key-%d" % key: offset for offset, key in enumerate(keys[:end].tolist())}
    since = {b"key-%d" % key for key in keys[end:].tolist()}
    assert {entry.key: entry.offset for entry in found.entries} == last
    assert {entry.key for entry in found.entries if entry.beyond} == since & set(last)
    assert set(found.moved_on) == since - set(last)
    assert (found.left_out, found.ceiling) == (0, HIGHEST)
    for entry in found.entries[:50]:
        assert entry.value_digest == value_digest(b"value of %d" % entry.offset)
        assert entry.base_offset == entry.offset // 97 * 97


def test_what_one_replica_leaves_out_is_not_missing_on_it() -> None:
    """Room for 300 of some 1,900 keys here and for 1,000 there: only what both kept is compared."""
    keys = KEYS[:2000]
    last = {b"key-%d" % key: offset for offset, key in enumerate(keys.tolist())}
    lowest = sorted(last, key=lambda key: fingerprint(key, SEED))
    values = {last[lowest[0]]: b"another", last[lowest[-1]]: b"another"}
    one = entries_of(log_of(keys), len(keys), 1, most_entries=300)
    other = entries_of(log_of(keys, values=values), len(keys), 2, most_entries=1000)
    (suspicion,) = key_suspicions([one, other])
    assert suspicion.key == lowest[0]
    assert 100 < len(one.entries) <= 300
    assert one.left_out == pytest.approx(len(last) - len(one.entries), rel=0.3)


def test_reading_again_from_the_ceiling_on_misses_no_key() -> None:
    keys = KEYS[:2000]
    data = log_of(keys)
    floor = 0
    found: list[bytes] = []
    while floor < HIGHEST:
        part = entries_of(data, len(keys), 1, most_entries=300, floor=floor)
        assert part.floor == floor < part.ceiling
        left = len(set(keys.tolist())) - len(found) - len(part.entries)
        assert part.left_out == pytest.approx(left, rel=0.3, abs=50)
        found += [entry.key for entry in part.entries]
        floor = part.ceiling
    assert sorted(found) == sorted({b"key-%d" % key for key in keys.tolist()})


# ── what else is noted ──


STORY = """\
0 a=1 b=1 c=1
3 @7/1 a=2
4 @8/0 b=2
5 @7/2 abort
6 @8/0 commit
7 -c
8 @9/0 x=1
9 @9/0 y=1
10 @9/1 abort
11 ~5 (empty)
""".splitlines()


def test_everything_is_counted() -> None:
    replica = TextReplica(1, STORY)
    found = Audit([replica]).facts(replica, scope(12))
    assert (found.records, found.batches, found.markers) == (8, 10, 3)
    assert (found.aborted_records, found.tombstones, found.keys) == (3, 1, 3)
    assert (found.first_timestamp, found.last_timestamp) == (1000, 1011)
    spans = [(s.producer_id, s.epoch, s.first_offset, s.marker_offset) for s in found.aborted]
    assert spans == [(7, 1, 3, 5), (9, 0, 8, 10)]
    assert [(s.first_data, s.last_data) for s in found.aborted] == [(3, 3), (8, 9)]
    assert found.first_repeat == 4  # b; a at 3 was aborted
    assert not found.misfits
    assert not found.damage
    assert pickle.loads(pickle.dumps(found)) == found == ReplicaFacts.from_json(found.to_json())


def test_the_marker_of_a_record_is_its_producers_next_one() -> None:
    replica = TextReplica(1, STORY)
    found = Audit([replica]).entries(replica, scope(12), frozenset(range(BUCKETS)), [])
    markers = {entry.key: (entry.offset, entry.marker_offset) for entry in found.entries}
    assert markers == {b"a": (0, None), b"b": (4, 6), b"c": (7, None)}


def test_bytes_that_are_no_batch_are_damage() -> None:
    data = log_of(KEYS[:300])
    fold = Fold(scope(300))
    fold.take(data + b"\7" * 100, ())
    (damage,) = facts(fold, 300).damage
    assert (damage.offset, damage.crc) == (300, False)
    assert "magic" in damage.why


def test_a_wrong_checksum_is_damage_and_its_rows_do_not_count() -> None:
    data = bytearray(log_of(KEYS[:300]))
    data[70] ^= 1
    for compacted in (True, False):
        fold = Fold(scope(300, compacted=compacted))
        fold.take(bytes(data), ())
        fold.again()
        (damage,) = facts(fold, 300).damage
        assert (damage.offset, damage.last_offset, damage.crc) == (0, 96, True)


def test_of_too_much_damage_the_last_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key may have a later record in any of it, so that nobody is said to lack that."""
    monkeypatch.setattr(folding, "MOST_DAMAGE", 2)
    replica = TextReplica(1, [f"{at} k{at}=1{' !' * (at % 2)}" for at in range(8)])
    found = Audit([replica]).facts(replica, scope(8))
    assert [damage.offset for damage in found.damage] == [1, 7]
    assert found.left_out == 2
