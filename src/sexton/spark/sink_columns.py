"""Which columns of a DataFrame are written, and as what? Those of Spark's own Kafka sink.

They go to the encoder as they are: it takes text for bytes, and small numbers for large ones, as
Arrow does. Spark would take a few milliseconds to plan a cast, and an own copy of each row to do
it. A DataFrame that has these columns and no others is not changed at all.

Names are compared letter by letter and other columns left out, as Spark's sink does. But `keys` or
`Key` where there is no `key` is refused: records with no key would have been meant by nobody.
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
    _refuse_slips(types, topic)
    if "value" not in types:
        example = "df.selectExpr('to_json(struct(*)) AS value')"
        hint = f"the DataFrame has {', '.join(types)}; as in {example}"
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


def _refuse_slips(types: Mapping[str, str], topic: str | None) -> None:
    """A column that is left out, and called like one that is not there."""
    absent = {_folded(name): name for name in COLUMNS if name not in types}
    if topic is not None:
        absent.pop("topic", None)  # nobody misses it
    for name in types:
        meant = absent.get(_folded(name))
        if meant is not None and name not in COLUMNS:
            hint = f"did you mean {meant}? Rename it, or leave it out with df.drop({name!r})"
            raise ConfigError(name, "is not a column that is written", hint)


def _folded(name: str) -> str:
    """Without capitals, and without the s of a plural."""
    return name.lower().removesuffix("s")
