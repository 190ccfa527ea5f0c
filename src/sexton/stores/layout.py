"""What is in a changelog and in a local store, byte by byte.

Both hold the same keys, so a changelog is replayed by writing it down:

    01 <key of the store>     its value; in the changelog a tombstone deletes it
    00 position               the input position: offset of the next input, 8 bytes, big-endian
    00 input                  the id of the topic that this is a position in, 16 bytes
    00 input epoch            the leader epoch of the last input before it, 4 bytes; -1: not known
    00 checkpoint             in the local store only: which changelog, and up to where

Everything that is not the application's begins with 00, so a scan of the store never meets it. The
id of the input is a record of its own, and once in a changelog is enough: a version that knows
nothing of it keeps it as it keeps everything, and reads positions as ever. The epoch is written
when it changes, and with an id: epochs are those of one topic.
"""

from __future__ import annotations

import json
import struct
from typing import Final

from sexton.base.errors import CorruptLog
from sexton.machines.stores_events import Checkpoint, Lineage

DATA: Final = b"\x01"
AFTER_DATA: Final = b"\x02"
POSITION: Final = b"\x00position"
INPUT_ID: Final = b"\x00input"
INPUT_EPOCH: Final = b"\x00input epoch"
CHECKPOINT: Final = b"\x00checkpoint"
FORMAT: Final = 1

_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")


def encode_position(next_input: int) -> bytes:
    return _OFFSET.pack(next_input)


def decode_position(value: bytes | None) -> int | None:
    """None stays None: nothing was ever committed."""
    if value is None:
        return None
    if len(value) != _OFFSET.size:
        raise CorruptLog("the input position", f"has {len(value)} bytes, not {_OFFSET.size}")
    position: int = _OFFSET.unpack(value)[0]
    return position


def encode_epoch(epoch: int) -> bytes:
    return _EPOCH.pack(epoch)


def decode_epoch(value: bytes | None) -> int:
    """-1: nobody has said it."""
    if value is None:
        return -1
    if len(value) != _EPOCH.size:
        raise CorruptLog("the input's leader epoch", f"has {len(value)} bytes, not {_EPOCH.size}")
    epoch: int = _EPOCH.unpack(value)[0]
    return epoch


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """JSON, for whoever looks into a store with other tools; it is read once per start."""
    return json.dumps(
        {
            "format": FORMAT,
            "cluster_id": checkpoint.lineage.cluster_id,
            "topic_id": checkpoint.lineage.topic_id.hex(),
            "position": checkpoint.position,
            "leader_epoch": checkpoint.leader_epoch,
            "caught_up_ms": checkpoint.caught_up_ms,
            "before_marker": checkpoint.before_marker,
        },
        separators=(",", ":"),
    ).encode()


def decode_checkpoint(value: bytes | None) -> Checkpoint | None:
    if value is None:
        return None
    try:
        said = json.loads(value)
        if said["format"] != FORMAT:
            raise CorruptLog("the checkpoint", f"has format {said['format']}, we know {FORMAT}")
        lineage = Lineage(str(said["cluster_id"]), bytes.fromhex(said["topic_id"]))
        return Checkpoint(
            lineage,
            int(said["position"]),
            int(said["leader_epoch"]),
            int(said["caught_up_ms"]),
            said.get("before_marker") is True,  # older versions do not say
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLog("the checkpoint", f"cannot be read: {error}") from None
