"""`spark.read.format("sexton")` and `spark.readStream.format("sexton")`.

Spark makes these objects in Python processes of its own: options are checked and ranges planned in
one on the driver, ranges are read in workers on the executors, all of which need sexton installed.
What is wrong comes back to the user as text in Spark's exception, so hints go into the text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from sexton.base.errors import ConfigError
from sexton.spark.columns import spark_schema
from sexton.spark.options import SourceOptions, parse
from sexton.spark.ranges import FileRange, Nothing, OffsetRange
from sexton.spark.tasks import settle


class SextonSource(DataSource):
    """The data source behind `format("sexton")`; `register` makes it known to a session."""

    @classmethod
    def name(cls) -> str:
        return "sexton"

    def schema(self) -> str:
        return spark_schema(_parse_either(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        return SextonReader(_checked(parse(self.options), schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from sexton.spark.streaming import SextonStreamReader

        return SextonStreamReader(_checked(parse(self.options, streaming=True), schema))


def _parse_either(options: Any) -> SourceOptions:
    """Spark asks for the schema without saying whether it is for a batch or a stream."""
    try:
        return parse(options)
    except ConfigError as error:
        try:
            return parse(options, streaming=True)
        except ConfigError:
            raise error from None


def _checked(options: SourceOptions, schema: StructType) -> SourceOptions:
    if tuple(schema.fieldNames()) != options.columns:
        hint = "choose columns with the option columns"
        raise ConfigError("schema", "this source has its own", hint)
    return options


class SextonReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        if options.paths:
            from sexton.spark.files import plan_files

            return list(plan_files(options)) or [Nothing()]
        from sexton.spark.planning import plan_ranges, with_client

        ranges = asyncio.run(with_client(options, lambda client: plan_ranges(client, options)))
        return list(ranges) or [Nothing()]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read(self._options, partition)


def read(options: SourceOptions, partition: InputPartition) -> Iterator[Any]:
    """What one task gives to Spark."""
    if isinstance(partition, FileRange):
        from sexton.spark.files import read_files

        yield from read_files(options, partition)
    elif isinstance(partition, OffsetRange):
        from sexton.spark.reading import read_range

        yield from read_range(options, partition)
    settle()
