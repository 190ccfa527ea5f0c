"""The columns of a DataFrame, for Spark by its own words and for Arrow.

The first seven, and `headers`, are those of Spark's Kafka source, so that a job can change from one
to the other by its `format`. The rest is there on request. Arrow's types must be exactly those that
Spark makes of the words beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS = "headers"
REPLICA = "replica"  # the broker whose copy it is
PATH = "path"  # the directory whose files hold it
EXTRA = ("producer_id", "producer_epoch", "transactional", "control", "outcome")

_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: "array<struct<key: string, value: binary>>",
    REPLICA: "int",
    PATH: "string",
    "producer_id": "bigint",
    "producer_epoch": "int",
    "transactional": "boolean",
    "control": "string",
    "outcome": "string",
}


def spark_schema(columns: Sequence[str]) -> str:
    return ", ".join(f"`{name}` {_TYPES[name]}" for name in columns)


def arrow_schema(columns: Sequence[str]) -> Any:
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    types = {
        "binary": pa.binary(),
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", "UTC"),
        _TYPES[HEADERS]: pa.list_(pa.field("element", header)),
    }
    return pa.schema([(name, types[_TYPES[name]]) for name in columns])
