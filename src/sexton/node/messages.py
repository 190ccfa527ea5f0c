"""What our own nodes say to each other beyond Kafka's protocol: private APIs, from key 20000 up.

The machines' own events travel as they are; what is here only gathers them, so that a pair of
brokers exchanges one message about all the partitions they share.
"""

from __future__ import annotations

from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.log.checkpoints import EpochStart
from sexton.machines import compaction
from sexton.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

RegisterAnswer = compaction.Accept | compaction.Discard | compaction.Refuse


@dataclass(frozen=True, slots=True)
class RegisterReplicas:
    """A follower to its leader, before it fetches."""

    registers: tuple[tuple[TopicPartition, compaction.Register], ...]


@dataclass(frozen=True, slots=True)
class RegisterReplicasAnswer:
    """With the epochs that the leader knows of: what was cleaned away does not tell of them."""

    answers: tuple[tuple[TopicPartition, RegisterAnswer, tuple[EpochStart, ...]], ...]


@dataclass(frozen=True, slots=True)
class CollectProgress:
    """A leader to a follower: how far are you?"""

    collects: tuple[tuple[TopicPartition, compaction.Collect], ...]


@dataclass(frozen=True, slots=True)
class CollectProgressAnswer:
    reports: tuple[tuple[TopicPartition, compaction.Report], ...]


@dataclass(frozen=True, slots=True)
class AnnounceRemovable:
    """A leader to a follower: below these the group may forget."""

    announcements: tuple[tuple[TopicPartition, compaction.Announce], ...]


@dataclass(frozen=True, slots=True)
class AnnounceRemovableAnswer:
    pass


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """A transaction coordinator to a leader: Kafka's request, and what tells a late one.

    `machines.markers` says how. The answer is Kafka's.
    """

    request: WriteTxnMarkersRequest
    number: int  # of the transaction, among all that this coordinator has ended in its term
    leader_epochs: tuple[tuple[TopicPartition, int], ...]  # as far as the coordinator knows


# ── from whoever runs a cluster for tests and study ──


@dataclass(frozen=True, slots=True)
class CleanNow:
    """Clean these logs without waiting until they are dirty enough; None: all that are compacted.

    Their active segments are closed first. All other rules hold: what is not committed, too young,
    or needed by another replica stays.
    """

    partitions: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class CleanNowAnswer:
    cleaned: tuple[tuple[TopicPartition, int], ...]  # with the offset up to which
    failed: tuple[tuple[TopicPartition, str], ...]


@dataclass(frozen=True, slots=True)
class ConferNow:
    """Ask your followers how far they are without waiting for the next round."""


@dataclass(frozen=True, slots=True)
class ConferNowAnswer:
    """They have been asked; what they say comes later."""


@dataclass(frozen=True, slots=True)
class LeaveCluster:
    """Hand over what you lead, for you are about to be stopped (Kafka's controlled shutdown)."""


@dataclass(frozen=True, slots=True)
class LeaveClusterAnswer:
    """It leads nothing, is in no ISR but those it is the last of, and everybody knows."""
