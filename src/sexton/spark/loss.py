"""Records that were asked for and are not there.

With `failOnDataLoss` (the default) each of these ends the query: what it would have given is not
what was asked for. Without, the user has said that what is left is enough.
"""

from __future__ import annotations

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition

_HINT = "to read what is left, set failOnDataLoss to false"


class DataLoss(Refused):
    def __init__(self, why: str) -> None:
        super().__init__(KafkaError.OFFSET_OUT_OF_RANGE, why, _HINT)


def begins_later(what: TopicPartition | str, start: int, log_start: int) -> DataLoss:
    return DataLoss(
        f"{what}: offsets [{start}, {log_start}) are gone, the log begins at {log_start}"
    )


def ends_earlier(what: TopicPartition | str, end: int, latest: int, word: str) -> DataLoss:
    return DataLoss(f"{what}: asked for up to offset {end}, but its {word} is {latest}")


def cut_before(what: TopicPartition, parts_at: int, reached: int, was: str) -> DataLoss:
    return DataLoss(
        f"{what}: {was} up to offset {reached}, and its leader's log parts from that at "
        f"{parts_at}: there was an unclean election, and other records may have come there since"
    )
