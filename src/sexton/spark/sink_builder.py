"""The sink by the option names of Spark's own, for a pipeline that has them already.

    exactly_once_writer(stream)                      stream.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", ...)          .option("kafka.bootstrap.servers", ...)
        .option("topic", "orders")                       .option("topic", "orders")
        .option("checkpointLocation", ...)               .option("checkpointLocation", ...)
        .trigger(processingTime="10 seconds")            .trigger(processingTime="10 seconds")
        .start()                                         .start()

What is new has names in the same manner: markerTopic, afterBatch, senders, and jobId for a
DataFrame, which is written by `save`. A name that nobody knows is an error.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Self

from sexton.base.errors import ConfigError
from sexton.spark.sink import start, write
from sexton.spark.sink_marker import BEFORE_ALL
from sexton.spark.sink_settings import SinkSettings, sink_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

SERVERS = "kafka.bootstrap.servers"
OPTIONS = (
    SERVERS, "topic", "checkpointLocation", "markerTopic", "afterBatch", "jobId", "senders",
)  # fmt: skip
_SPELLED = {name.lower(): name for name in OPTIONS}


def exactly_once_writer(df: DataFrame) -> ExactlyOnceWriter:
    """Begins to say how a stream or a DataFrame is written; `start` or `save` does it."""
    return ExactlyOnceWriter(df)


class ExactlyOnceWriter:
    def __init__(self, df: DataFrame) -> None:
        self._df = df
        self._options: dict[str, str] = {}
        self._kafka: dict[str, str] = {}
        self._trigger: dict[str, Any] = {}
        self._name: str | None = None

    def option(self, name: str, value: Any) -> Self:
        spelled = _SPELLED.get(name.lower())
        if spelled is not None:
            self._options[spelled] = str(value)
        elif name.lower().startswith("kafka."):
            self._kafka[name.lower()] = str(value)
        else:
            close = difflib.get_close_matches(name.lower(), _SPELLED, n=1)
            hint = f"did you mean {_SPELLED[close[0]]}?" if close else f"there are {OPTIONS}"
            raise ConfigError(name, "is not an option of this sink", hint)
        return self

    def options(self, **options: Any) -> Self:
        for name, value in options.items():
            self.option(name, value)
        return self

    def trigger(self, **how: Any) -> Self:
        """As Spark's: processingTime, availableNow, once."""
        self._trigger = how
        return self

    def outputMode(self, mode: str) -> Self:  # noqa: N802
        """Append is what there is: a row that was written stays as it is."""
        if mode.lower() != "append":
            hint = "leave it out; an aggregation with a watermark gives each window once"
            raise ConfigError("outputMode", f"is {mode!r}, and rows can only be appended", hint)
        return self

    def queryName(self, name: str) -> Self:  # noqa: N802  Spark's spelling
        """Names the pipeline, too: its checkpoint belongs to it."""
        self._name = name
        return self

    def start(self) -> StreamingQuery:
        checkpoint = self._needed("checkpointLocation", "as for any query")
        self._refuse("jobId", "is for a DataFrame", "a stream goes by its checkpoint")
        return start(self._df, self.settings(), checkpoint, self._name, self._trigger)

    def save(self) -> bool:
        """False: a job with this id has written before."""
        for name in ("checkpointLocation", "afterBatch"):
            self._refuse(name, "is for a stream", "a DataFrame goes by its jobId")
        job_id = self._needed("jobId", "what is written under one id is written once")
        return write(self._df, self.settings(), job_id)

    def settings(self) -> SinkSettings:
        servers = self._needed(SERVERS, "write .option('kafka.bootstrap.servers', 'host:port')")
        after = self._options.get("afterBatch")
        if after is not None and not after.isdecimal() and after != str(BEFORE_ALL):
            hint = f"the number of a batch, from 0 on; {BEFORE_ALL}: none is in the topic"
            raise ConfigError("afterBatch", f"is {after!r}", hint)
        return sink_settings(
            topic=self._options.get("topic"), bootstrap_servers=servers, options=self._kafka,
            marker_topic=self._options.get("markerTopic"),
            after_batch=None if after is None else int(after),
            senders=self._options.get("senders", 1),
        )  # fmt: skip

    def _needed(self, name: str, hint: str) -> str:
        if name not in self._options:
            raise ConfigError(name, "is not given", hint)
        return self._options[name]

    def _refuse(self, name: str, why: str, hint: str) -> None:
        if name in self._options:
            raise ConfigError(name, why, hint)
