"""Which columns of a DataFrame are written, and as what? Those of Spark's own Kafka sink.

They go to the encoder as they are: it takes text for bytes, and small numbers for large ones, as
Arrow does. Spark would take a few milliseconds to plan a cast, and an own copy of each row to do
it. A DataFrame that has these columns and no others is not changed at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sexton.base.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HEADER = "array<struct<key:string,value:binary>>"
COLUMNS = {  # what it may be
    "topic": ("string",),
    "partition": ("int", "smallint", "tinyint"),
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": (_HEADER,),
    "timestamp": ("timestamp",),
}


def prepared(df: DataFrame, topic: str | None) -> DataFrame:
    """The columns that are written; others are left out."""
    types = {field.name: field.dataType.simpleString() for field in df.schema.fields}
    chosen = written(types, topic)
    if len(chosen) == len(df.schema.fields):
        return df
    return df.select(*(f"`{name}`" for name in chosen))


def written(types: Mapping[str, str], topic: str | None) -> list[str]:
    """Of columns with such types; ConfigError if they cannot be written."""
    if "value" not in types:
        hint = f"the DataFrame has {', '.join(types)}; as in df.selectExpr('to_json(*) AS value')"
        raise ConfigError("value", "there is no such column", hint)
    if topic is None and "topic" not in types:
        raise ConfigError("topic", "is neither given nor a column", "give topic=, or the column")
    chosen = []
    for name, allowed in COLUMNS.items():
        if name not in types or (name == "topic" and topic is not None):
            continue
        if types[name] not in allowed:
            why = f"the column is {types[name]}"
            raise ConfigError(name, why, f"it has to be {' or '.join(allowed)}")
        chosen.append(name)
    return chosen
