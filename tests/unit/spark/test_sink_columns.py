"""Which columns does the exactly-once sink write, and what does it say about the others?"""

from __future__ import annotations

import pytest

from sexton.base.errors import ConfigError
from sexton.spark.sink_columns import written

VALUE = {"value": "string"}


def test_columns_that_mean_nothing_to_kafka_are_left_out() -> None:
    types = {"id": "bigint", "timestamp_ms": "bigint", "partition_id": "int", "key1": "string"}
    assert written(types | VALUE, "orders") == ["value"]


@pytest.mark.parametrize(
    ("slip", "meant"),
    [("keys", "key"), ("Key", "key"), ("header", "headers"), ("Timestamp", "timestamp")],
)
def test_a_column_called_almost_like_one_that_is_absent_is_refused(slip: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean {meant}") as caught:
        written({slip: "string"} | VALUE, "orders")
    assert caught.value.subject == slip


def test_the_value_is_found_under_its_own_name_only() -> None:
    with pytest.raises(ConfigError, match=r"Value: is not a column.*did you mean value"):
        written({"Value": "string"}, "orders")


def test_without_a_value_it_is_said_how_to_make_one() -> None:
    with pytest.raises(
        ConfigError, match=r"has id, n; as in df.selectExpr\('to_json\(struct\(\*\)\)"
    ):
        written({"id": "bigint", "n": "int"}, "orders")


def test_beside_the_column_itself_another_of_almost_that_name_is_left_out() -> None:
    types = {"key": "string", "keys": "array<string>"}
    assert written(types | VALUE, "orders") == ["key", "value"]


def test_nobody_misses_the_column_topic_if_a_topic_is_given() -> None:
    assert written({"topics": "string"} | VALUE, "orders") == ["value"]
    with pytest.raises(ConfigError, match="did you mean topic"):
        written({"topics": "string"} | VALUE, None)
