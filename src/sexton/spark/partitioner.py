"""Which partition does a record go to? The one that Kafka's Java client would choose.

A key's bytes decide, so that a key stays in its partition whoever writes it: murmur2, made
positive, modulo the number of partitions. Records without a key may go anywhere. They stay together
until they fill a batch and then go on to the next partition (KIP-480): many records in few batches,
and over time an even share for all. Where they begin is up to the caller; nothing here is random,
so an attempt that is made again chooses the same.

Keys are hashed side by side: the first word of all of them, then the second word of those that have
one. A column costs as many steps as its longest key has words.
"""

from __future__ import annotations

import numpy as np

from sexton.records.columns import Spans
from sexton.records.tables import Array

_FACTOR = np.uint32(0x5BD1E995)
_SEED = np.uint32(0x9747B28C)
_POSITIVE = np.uint32(0x7FFFFFFF)
_WORD = 4


def partitions_of(
    keys: Spans, partitions: int, sizes: Array, batch_bytes: int, first: int
) -> Array:
    """The partition of each row, of a topic with so many.

    `sizes` are the bytes of each row; rows without a key begin at the partition `first`.
    """
    assert partitions > 0
    found = np.zeros(len(keys), np.int32)
    keyed = np.flatnonzero(keys.length >= 0)
    if len(keyed):
        hashed = murmur2(keys.take(keyed)) & _POSITIVE
        found[keyed] = hashed % np.uint32(partitions)
    loose = np.flatnonzero(keys.length < 0)
    if len(loose):
        before = np.cumsum(sizes[loose]) - sizes[loose]
        found[loose] = (first + before // batch_bytes) % partitions
    return found


def murmur2(keys: Spans) -> Array:
    """`Utils.murmur2` of Kafka's clients, of each key; none may be null. (Products wrap around.)"""
    length, place = keys.length.astype(np.int64), keys.position.astype(np.int64)
    mixed: Array = _SEED ^ length.astype(np.uint32)
    going, at = np.flatnonzero(length >= _WORD), 0
    while len(going):
        word = _word(keys.data, place[going] + at) * _FACTOR
        word ^= word >> np.uint32(24)
        mixed[going] = mixed[going] * _FACTOR ^ word * _FACTOR
        at += _WORD
        going = going[length[going] >= at + _WORD]
    left, end = length % _WORD, place + length
    for byte in (3, 2, 1):  # the last of up to three bytes is the highest
        some = np.flatnonzero(left >= byte)
        value = keys.data[(end - left)[some] + byte - 1].astype(np.uint32)
        mixed[some] ^= value << np.uint32(8 * (byte - 1))
    mixed[left > 0] *= _FACTOR
    mixed ^= mixed >> np.uint32(13)
    mixed *= _FACTOR
    mixed ^= mixed >> np.uint32(15)
    return mixed


def _word(data: Array, place: Array) -> Array:
    word = data[place].astype(np.uint32)
    for byte in range(1, _WORD):
        word |= data[place + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word
