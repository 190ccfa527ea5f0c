"""Which generation of the group are we in?

librdkafka hands out what a transactional producer needs to name its place in the group, as bytes:

    "CGMDv2:"  generation (int32, of this machine)  group id \\0  member id \\0  ...

We read the generation for the fencing token, and for a trap: a consumer that was thrown out of its
group has generation -1 and no member id until it is back, and to Kafka a transactional commit from
such a nobody is one that no group manages: it is accepted. Ours would be a zombie's. So what a
nobody would commit is never sent.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from sexton.base.errors import PeerError

_MAGIC = b"CGMDv2:"
_GENERATION = struct.Struct("=i")
NOBODY = -1


class Membership(NamedTuple):
    generation: int  # the member epoch in a group of KIP-848
    member_id: str
    metadata: bytes  # for send_offsets_to_transaction

    @property
    def counts(self) -> bool:
        """Whether Kafka will check who we are."""
        return self.generation > 0 and self.member_id != ""


def membership(metadata: bytes | None) -> Membership:
    if metadata is None:
        return Membership(NOBODY, "", b"")
    if not metadata.startswith(_MAGIC):
        why = "describes a member of a group in a way that we do not know"
        raise PeerError("librdkafka", why, "use a version of confluent-kafka that is tested")
    at = len(_MAGIC)
    (generation,) = _GENERATION.unpack_from(metadata, at)
    names = metadata[at + _GENERATION.size :].split(b"\0")
    member_id = names[1].decode() if len(names) > 1 else ""
    return Membership(generation, member_id, metadata)
