"""What is asked of a topic, and what was seen of it: small, so that both can be sent anywhere.

    Rules ──▶ one partition, read and folded ──▶ PartitionFacts, with a Sighting for each fault

A `Sighting` is one place where the topic is not what its pipeline promised, with both records that
show it. Many are counted, the first ones are told.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal

from sexton.audit.plain import Plain
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition

Rising = Literal["never-back", "rising"]
STATE_REGRESSION: Final = "state-regression"
KEY_SEQUENCE_GAP: Final = "key-sequence-gap"
DUPLICATE: Final = "duplicate-record"
INCONSISTENT: Final = "inconsistent-duplicate"
ORDER_VIOLATION: Final = "order-violation"
LOST: Final = "lost-record"
UNCOMMITTED: Final = "uncommitted-record"
STALE_ROW: Final = "table-stale-row"
MISSING_ROW: Final = "table-missing-row"
DIFFERENT_ROW: Final = "table-different-row"
CODES = (
    STATE_REGRESSION, KEY_SEQUENCE_GAP, DUPLICATE, INCONSISTENT, ORDER_VIOLATION, LOST,
    UNCOMMITTED, STALE_ROW, MISSING_ROW, DIFFERENT_ROW,
)  # fmt: skip
NO_OFFSET: Final = -1
SOURCE: Final = "source"  # what a topic is compared with
COMPLETE: Final = "complete"  # what is looked for in it
TABLE: Final = "table"


@dataclass(frozen=True, slots=True)
class Rules(Plain):
    """What has to hold; expressions are in the words of `expressions`."""

    key: str = "key"
    value: str | None = None  # per key, it does not go back
    rising: Rising = "never-back"  # or has to rise with every record
    sequence: str | None = None  # per key, one more each time
    id: str | None = None  # comes once in the whole topic
    content: str = "value"  # what two records of one id have to agree in
    committed: bool = True  # as a read_committed consumer sees it
    compare_isolation: bool = False  # what does a read_uncommitted consumer see that this does not?
    source: str | None = None  # a topic whose order per key is to be kept, by `id`
    source_id: str | None = None  # the id in the source's records; the same if not given
    complete: bool = False  # each id of the source has to be there
    skip_unreadable: bool = False  # records in which an expression finds nothing are left out


@dataclass(frozen=True, slots=True)
class Sighting(Plain):
    """One record that should not be as it is, beside the earlier one that says so."""

    code: str
    partition: TopicPartition
    key: bytes | None
    id: bytes | None  # where ids are what is asked for
    last_value: str  # what was known: a number, or a position in the source
    value: str  # what came
    last_offset: int  # NO_OFFSET: there is none
    offset: int
    last_partition: int  # where the earlier one is, mostly the same
    timestamp_ms: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    last_timestamp_ms: int = -1
    last_producer_id: int = -1
    last_producer_epoch: int = -1
    of_sequence: bool = False  # a number of a sequence went back, not a value

    @property
    def identity(self) -> str:
        """The same in every run that finds the same thing."""
        if self.offset == NO_OFFSET:  # a row of a table whose key the topic does not have
            digest = hashlib.blake2b(self.key or b"", digest_size=8).hexdigest()
            return f"{self.code}/{self.partition.topic}/key-{digest}"
        before = f"{self.last_partition}:{self.last_offset}"
        if self.last_partition == self.partition.partition:
            before = str(self.last_offset)
        return f"{self.code}/{self.partition}/{before}-{self.offset}"


@dataclass(frozen=True, slots=True)
class Unread(Plain):
    """Batches whose bytes could not be read."""

    offset: int
    why: str


@dataclass(frozen=True, slots=True)
class PartitionFacts(Plain):
    """One partition, [start, end) of it."""

    partition: TopicPartition
    start: int
    end: int
    records: int  # that were read, as consumers see them
    bytes: int
    keys: int
    ids: int
    hidden: int  # aborted, and so not judged
    without_key: int
    unreadable: int
    first_unreadable: int  # its offset; NO_OFFSET: none
    counts: Mapping[str, int]  # by code: how often
    sightings: tuple[Sighting, ...]  # the first ones
    damage: tuple[Unread, ...] = ()
    of_sequence: int = 0  # of the values that went back: numbers of a sequence
    # By rule of `checks`, in how many records it found what it asks for. Without any, who knows?
    judged: Mapping[str, int] = field(default_factory=dict)
    passed_over: int = 0  # rows of a stream at offsets that an earlier batch has had: not judged
