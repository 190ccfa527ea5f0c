"""Which partition does a key go to? The one that Kafka's Java client would choose.

murmur2 of the key's bytes (`Utils.murmur2` of Kafka's clients), made positive, modulo the number of
partitions. This is for one key at a time; `append_kernels` does the same for columns of them.
"""

from __future__ import annotations

FACTOR = 0x5BD1E995
SEED = 0x9747B28C
_32 = 0xFFFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    size = len(data)
    mixed = SEED ^ size
    for at in range(0, size & ~3, 4):
        word = int.from_bytes(data[at : at + 4], "little") * FACTOR & _32
        word = (word ^ word >> 24) * FACTOR & _32
        mixed = mixed * FACTOR & _32 ^ word
    if size & 3:
        mixed = (mixed ^ int.from_bytes(data[size & ~3 :], "little")) * FACTOR & _32
    mixed = (mixed ^ mixed >> 13) * FACTOR & _32
    return mixed ^ mixed >> 15
