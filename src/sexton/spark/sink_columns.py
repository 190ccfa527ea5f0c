"""Which columns of a DataFrame are written, and as what? Those of Spark's own Kafka sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sexton.base.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HEADER = "array<struct<key:string,value:binary>>"
COLUMNS = {  # what it may be, and what it is made
    "topic": (("string",), "string"),
    "partition": (("int", "smallint", "tinyint"), "int"),
    "key": (("binary", "string"), "binary"),
    "value": (("binary", "string"), "binary"),
    "headers": ((_HEADER,), _HEADER),
    "timestamp": (("timestamp",), "timestamp"),
}


def prepared(df: DataFrame, topic: str | None) -> DataFrame:
    """The columns that are written, in the types that the encoder takes; others are left out."""
    from pyspark.sql.functions import col

    types = {field.name: field.dataType.simpleString() for field in df.schema.fields}
    if "value" not in types:
        hint = f"the DataFrame has {', '.join(types)}; as in df.selectExpr('to_json(*) AS value')"
        raise ConfigError("value", "there is no such column", hint)
    if topic is None and "topic" not in types:
        raise ConfigError("topic", "is neither given nor a column", "give topic=, or the column")
    chosen = []
    for name, (allowed, wanted) in COLUMNS.items():
        if name not in types or (name == "topic" and topic is not None):
            continue
        if types[name] not in allowed:
            why = f"the column is {types[name]}"
            raise ConfigError(name, why, f"it has to be {' or '.join(allowed)}")
        chosen.append(col(f"`{name}`").cast(wanted).alias(name))
    return df.select(*chosen)
