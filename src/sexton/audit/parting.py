"""Different records at one offset, each sound: which leader wrote which?

A batch carries the epoch of the leader that wrote it. One leader writes one record to an offset, so
of two different ones each is of another epoch, and as a rule the later leader's is what counts: the
other one was to be cut off when its replica came back.

    offset      3      4      5
    broker 1    f=1    g=1    h=1        epoch 1
    broker 3    y=1    z=1    h=1        epoch 0, 0, 1: it kept what it had written alone

That is a strong hint, and no verdict. A leader that was elected without being in sync brings back
what an earlier one gave up; and a directory that came from elsewhere has epochs of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from sexton.audit.window import Slot
from sexton.audit.words import named
from sexton.records.layout import NO_LEADER_EPOCH

UNKNOWN = "each checksum is right, and the logs do not show which of them has the right history"


def parted(held: Mapping[int, Slot]) -> str:
    """What the leader epochs hint at; `held`: each node's record at the offset in question."""
    nodes: dict[int, list[int]] = {}
    for node, slot in held.items():
        nodes.setdefault(slot.leader_epoch, []).append(node)
    epochs = sorted(nodes)
    if len(epochs) < 2 or NO_LEADER_EPOCH in epochs:
        return UNKNOWN
    told = " and in ".join(f"{epoch} on {named(nodes[epoch])}" for epoch in epochs)
    return (
        f"each checksum is right; it was written in leader epoch {told}: usually the later one "
        "counts, unless an unclean election or a copied directory has brought back the other"
    )
