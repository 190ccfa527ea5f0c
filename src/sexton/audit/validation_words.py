"""What a sighting means, in a sentence, and what to do about it.

A value that goes back is told in one line that names all there is to look for:
`Partition: 17, Key: key_17, LastValue: 110, NewValue: 105`.
"""

from __future__ import annotations

from typing import Final

from sexton.audit.remedies import runbook
from sexton.audit.validation import (
    DIFFERENT_ROW,
    DUPLICATE,
    INCONSISTENT,
    KEY_SEQUENCE_GAP,
    LOST,
    MISSING_ROW,
    ORDER_VIOLATION,
    STALE_ROW,
    STATE_REGRESSION,
    UNCOMMITTED,
    Sighting,
)

# In the order in which one wants to read them: what does the most harm first.
MEANINGS: Final[dict[str, str]] = {
    STATE_REGRESSION: "A value that must not go back went back: something used old state.",
    LOST: "A record of the source topic is missing from this one.",
    INCONSISTENT: "One id stands for records with different content.",
    ORDER_VIOLATION: "Records of one key are in a different order than in their source topic.",
    DUPLICATE: "A record with the same id and content is there more than once.",
    KEY_SEQUENCE_GAP: "A key's sequence skips numbers: records are missing.",
    STALE_ROW: "The table has a row for a key that the topic has deleted, or never had.",
    MISSING_ROW: "The topic has a key that the table lacks.",
    DIFFERENT_ROW: "The table's value for a key differs from the topic's last record.",
    UNCOMMITTED: "Readers with the default isolation level see a record that was not committed.",
}
REMEDIES: Final[dict[str, str]] = {
    STATE_REGRESSION: (
        "Look at who wrote both records: another producer epoch means that a task was taken over"
        " with old state. Rebuild that state from its changelog before it writes more."
    ),
    LOST: (
        "See whether the pipeline has caught up, and whether retention has deleted the record"
        " since; if not, have it process that source offset again, and find out who skipped it."
    ),
    INCONSISTENT: (
        "Find out which of the two is right, and write it once more; make the writer"
        " transactional, or its output a function of its input alone."
    ),
    ORDER_VIOLATION: (
        "Keep all records of a key in one partition and one worker, and retry in place or with"
        " per-key locks."
    ),
    DUPLICATE: (
        "Write in transactions and read with read_committed, or have consumers drop ids that they"
        " have seen."
    ),
    KEY_SEQUENCE_GAP: (
        "See whether the topic is compacted (then gaps are normal); if not, find the records in"
        " the source, and who skipped them."
    ),
    STALE_ROW: "Delete the row, and find out why the job that fills the table missed the delete.",
    MISSING_ROW: "Refill the table from the topic, and find out since when rows have been missing.",
    DIFFERENT_ROW: (
        "Refill the row from the topic; did the table take a record that was not committed?"
    ),
    UNCOMMITTED: "Set isolation.level=read_committed in the readers of this topic.",
}


def remedy(code: str) -> str:
    return f"{REMEDIES[code]} See {runbook(code)}."


def message(sighting: Sighting, key: str | None, id_: str | None, *, isolation: str | None) -> str:
    """One sentence about one sighting; `key` and `id_` as they may be shown.

    Of very many sightings the last ones were not looked at again, and nobody knows their key. The
    isolation level is known if the records were read by us.
    """
    key, id_ = key or "not looked up", f"the id {id_}" if id_ else "an id"
    partition = sighting.partition.partition
    view = f" ({isolation})" if isolation else ""
    match sighting.code:
        case "state-regression":
            what = "a number of the sequence" if sighting.of_sequence else "a value"
            again = "came again" if sighting.of_sequence else "did not rise"
            went = "went back" if sighting.value != sighting.last_value else again
            return (
                f"{what} {went}{view}. Partition: {partition}, Key: {key},"
                f" LastValue: {sighting.last_value}, NewValue: {sighting.value}"
            )
        case "key-sequence-gap":
            return (
                f"numbers are missing between {sighting.last_value} and {sighting.value}."
                f" Partition: {partition}, Key: {key}"
            )
        case "duplicate-record":
            return f"{id_} comes again, with the same content, {_places(sighting)}"
        case "inconsistent-duplicate":
            return f"{id_} comes again, with other content, {_places(sighting)}"
        case "order-violation":
            return (
                f"the record from {sighting.value} was processed after the one from"
                f" {sighting.last_value}."
                f" Partition: {partition}, Key: {key}"
            )
        case "lost-record":
            return (
                f"the output lacks {id_}, which the source has in {sighting.partition} at offset"
                f" {sighting.offset}. Partition: {partition}, Key: {key}"
            )
        case "uncommitted-record":
            return (
                f"the last record of a key is not committed: read_uncommitted shows it at offset"
                f" {sighting.offset}, read_committed an older one or none."
                f" Partition: {partition}, Key: {key}"
            )
        case "table-stale-row":
            why = sighting.last_value or "has never been in the topic"
            return f"the table has the key {key}, which {why}"
        case "table-missing-row":
            return f"the table lacks the key {key}, which the topic has at offset {sighting.offset}"
        case _:
            return (
                f"the table has another value for the key {key} than the topic"
                f" at offset {sighting.offset}"
            )


def _places(sighting: Sighting) -> str:
    here, there = sighting.partition.partition, sighting.last_partition
    if here == there:
        return f"at offset {sighting.offset} after {sighting.last_offset} in partition {here}"
    return (
        f"in partition {here} at offset {sighting.offset} and in partition {there}"
        f" at offset {sighting.last_offset}"
    )
