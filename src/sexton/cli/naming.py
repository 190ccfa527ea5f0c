"""`orders` is a topic and `orders:3` one partition of it: a colon is in no topic's name."""

from __future__ import annotations

from collections.abc import Iterable

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition


def topic_and_partition(text: str) -> tuple[str, int | None]:
    """`orders`, or `orders:3`; None: the whole topic."""
    topic, colon, number = text.partition(":")
    if not topic or (colon and not number.isdecimal()):
        raise ConfigError(text, "is not TOPIC or TOPIC:PARTITION", "as in orders or orders:3")
    return topic, int(number) if colon else None


def topics_and_partitions(
    texts: Iterable[str],
) -> tuple[tuple[str, ...], tuple[TopicPartition, ...]]:
    """All topics that are named; and of those that are not meant as a whole, which partitions."""
    named = [topic_and_partition(text) for text in texts]
    whole = {topic for topic, number in named if number is None}
    some = [
        TopicPartition(topic, number)
        for topic, number in named
        if number is not None and topic not in whole
    ]
    return tuple(dict.fromkeys(topic for topic, _ in named)), tuple(dict.fromkeys(some))


def place_named(text: str) -> TopicPartition:
    """`orders:3`, or `orders-3` as Kafka names a directory."""
    topic, colon, number = text.rpartition(":")
    if colon and topic and number.isdecimal():
        return TopicPartition(topic, int(number))
    try:
        return TopicPartition.from_directory(text)
    except ConfigError:
        raise ConfigError(text, "is not TOPIC:PARTITION", "as in orders:0") from None
