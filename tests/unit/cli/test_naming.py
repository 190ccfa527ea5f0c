"""Topics, partitions and spans of time, as people type them."""

from __future__ import annotations

import pytest

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.cli.durations import milliseconds, moment_ms, span_ms
from sexton.cli.naming import place_named, topic_and_partition, topics_and_partitions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 500), ("90s", 90_000), ("5m", 300_000), ("5 min", 300_000), ("1.5h", 5_400_000),
        ("2d", 172_800_000), (" 1w ", 604_800_000), ("0s", 0),
    ],
)  # fmt: skip
def test_a_span_of_time(text: str, expected: int) -> None:
    assert milliseconds(text, "--for") == expected


@pytest.mark.parametrize("text", ["", "5", "soon", "-5s", "5 weeks", "2026-11-01", "1h30m"])
def test_what_is_no_span_of_time(text: str) -> None:
    assert span_ms(text) is None
    with pytest.raises(ConfigError, match="--for"):
        milliseconds(text, "--for")


@pytest.mark.parametrize("text", ["101000w", pytest.param("9" * 400 + "s", id="many digits")])
def test_a_span_that_nobody_lives_to_see_the_end_of(text: str) -> None:
    with pytest.raises(ConfigError, match="longer than a hundred years"):
        milliseconds(text, "--for")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("6h", 1_000), ("1w", 0), ("1969-12-31", 0), ("2000-01-01T00:00", 946_684_800_000),
        ("1700000000000", 1_700_000_000_000), ("123", None), ("-5", None), ("--5", None),
        ("99y", None), pytest.param("9" * 5_000, None, id="many digits"),
        pytest.param("9" * 400 + "d", 0, id="before there was anything"),
    ],
)  # fmt: skip
def test_a_moment(text: str, expected: int | None) -> None:
    if expected is None:
        with pytest.raises(ConfigError, match="--since"):
            moment_ms(text, "--since", 6 * 3_600_000 + 1_000)
    else:
        assert moment_ms(text, "--since", 6 * 3_600_000 + 1_000) == expected


def test_a_colon_names_a_partition() -> None:
    assert topic_and_partition("orders") == ("orders", None)
    assert topic_and_partition("orders-3") == ("orders-3", None)  # a topic may be called so
    assert topic_and_partition("orders:3") == ("orders", 3)
    assert place_named("orders:3") == place_named("orders-3") == TopicPartition("orders", 3)
    for text in ("", ":3", "orders:", "orders:x", "orders:3:4", "orders:-1"):
        with pytest.raises(ConfigError, match="TOPIC:PARTITION"):
            topic_and_partition(text)


def test_who_names_a_topic_and_a_partition_of_it_means_the_topic() -> None:
    orders, others = TopicPartition("orders", 3), TopicPartition("others", 0)
    assert topics_and_partitions(["orders:3", "others:0"]) == (
        ("orders", "others"),
        (orders, others),
    )
    assert topics_and_partitions(["orders:3", "orders", "others:0"]) == (
        ("orders", "others"),
        (others,),
    )
