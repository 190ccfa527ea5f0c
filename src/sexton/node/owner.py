"""Whose data is on this disk? It is written down beside the logs, where Kafka writes it, too.

    meta.properties      version=1      cluster.id=W4Vh_sWxRhqBmVqB4dnRZQ      node.id=1

A broker deletes the logs that its controller does not know of: their topics were deleted while it
was away. That is right if this controller once gave it those logs. To any other all of them are
unknown: whoever loses the controller's directory, or moves a broker's to another cluster or another
number, would lose the rest by it. So a broker serves nobody but its owner.

A directory that says nothing belongs to whomever its broker joins first. What logs it holds may
have come from anywhere: those that the controller has not given to this broker are set aside.
"""

from __future__ import annotations

from sexton.base.lazy_dataclass import dataclass
from sexton.log.disk import Disk, replace

META = "meta.properties"
HINT = (
    "put back the directories that belong together, the controller's as well, or begin anew in an "
    "empty one; nothing in it was changed"
)


@dataclass(frozen=True, slots=True)
class Owner:
    cluster_id: str
    node_id: int

    def __str__(self) -> str:
        return f"broker {self.node_id} of cluster {self.cluster_id}"


def load(disk: Disk) -> Owner | None:
    """None if nobody has written it down."""
    if not disk.exists(META):
        return None
    lines = disk.read(META).decode("utf-8", "replace").splitlines()
    said = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}
    cluster_id = said.get("cluster.id", "")
    node_id = said.get("node.id") or said.get("broker.id", "")  # older ones of Kafka's
    return Owner(cluster_id, int(node_id) if node_id.isdecimal() else -1) if cluster_id else None


def keep(disk: Disk, owner: Owner) -> None:
    """Durably."""
    text = f"version=1\ncluster.id={owner.cluster_id}\nnode.id={owner.node_id}\n"
    replace(disk, META, text.encode())


def objection(kept: Owner | None, owner: Owner) -> str | None:
    """Why `owner` may not have this disk, if it may not."""
    if kept is None or kept == owner:
        return None
    return f"holds the data of {kept}, and this is {owner}"
