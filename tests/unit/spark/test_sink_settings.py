"""Is a wrong option of the sink noticed before anything runs, with words that help?"""

from __future__ import annotations

from typing import Any

import pytest

from sexton.base.errors import ConfigError
from sexton.records.layout import Codec
from sexton.spark.sink_builder import ExactlyOnceWriter, exactly_once_writer
from sexton.spark.sink_senders import Senders, check_allocation
from sexton.spark.sink_settings import checked_name, sink_settings


def settings(**options: str) -> Any:
    named = {name.replace("__", "."): value for name, value in options.items()}
    return sink_settings(topic="t", bootstrap_servers="here:9092", options=named)


def test_kafkas_names_are_taken_with_and_without_sparks_prefix() -> None:
    for name in ("compression__type", "kafka__compression__type"):
        assert settings(**{name: "zstd"}).codec is Codec.ZSTD
    assert settings(batch__size="1000").batch_bytes == 1000
    assert settings(transaction__timeout__ms="900").timeout_ms == 900
    assert settings(sasl__mechanism="PLAIN").kafka["sasl.mechanism"] == "PLAIN"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("compression__type", "rar", "there are none, gzip, snappy, lz4, zstd"),
        ("batch__size", "0", "a number from 1"),
        ("linger__ms", "5", "is not an option of this sink"),
        ("transactional__id", "mine", "made of the pipeline's name"),
        ("acks", "1", "is always all"),
        ("ssl__engine__factory__class", "x", "is a Java class, and none is run here"),
    ],
)
def test_what_cannot_be_honoured_is_refused(name: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(**{name: value})
    assert why in f"{caught.value} {caught.value.hint}"


def test_without_a_topic_the_marker_needs_one() -> None:
    with pytest.raises(ConfigError) as caught:
        sink_settings(topic=None, bootstrap_servers="here:9092")
    assert "marker_topic" in str(caught.value.hint)
    told = sink_settings(topic=None, marker_topic="m", bootstrap_servers="here:9092")
    assert (told.topic, told.marker_topic) == (None, "m")


def test_a_name_has_to_fit_into_a_transactional_id() -> None:
    assert checked_name("job_id", "orders-2024_06.1") == "orders-2024_06.1"
    for name in ("", "a b", "x" * 201):
        with pytest.raises(ConfigError, match="job_id"):
            checked_name("job_id", name)


def test_senders_are_a_number_or_left_to_us() -> None:
    def chosen(senders: object) -> Senders:
        return sink_settings(topic="t", bootstrap_servers="here:9092", senders=senders).senders

    assert [chosen(given) for given in (1, "3", "auto")] == [1, 3, "auto"]
    for wrong in (0, -1, "many", "", True):
        with pytest.raises(ConfigError, match="senders"):
            chosen(wrong)


def test_several_senders_are_refused_where_executors_come_and_go() -> None:
    check_allocation(1, "true")
    check_allocation("auto", "false")
    for wanted in (2, "auto"):
        with pytest.raises(ConfigError, match="dynamicAllocation") as caught:
            check_allocation(wanted, "True")
        assert "leave senders at 1" in str(caught.value.hint)


# ── by Spark's names ──


def writer() -> ExactlyOnceWriter:
    """Options are looked at before the DataFrame is."""
    nothing: Any = None
    return exactly_once_writer(nothing)


def test_the_builder_takes_sparks_names_in_any_case() -> None:
    built = writer().options(TOPIC="t", markertopic="m", afterBatch=6, senders="auto")
    built.option("kafka.bootstrap.servers", "here:9092").option("Kafka.Compression.Type", "lz4")
    told = built.settings()
    assert (told.topic, told.marker_topic, told.after_batch) == ("t", "m", 6)
    assert (told.codec, told.senders) == (Codec.LZ4, "auto")
    assert built.option("afterBatch", -1).settings().after_batch == -1  # none is in the topic
    with pytest.raises(ConfigError, match="afterBatch: is '-2'"):
        built.option("afterBatch", -2).settings()


def test_the_builder_says_what_is_missing_or_misspelt() -> None:
    with pytest.raises(ConfigError) as caught:
        writer().option("checkpointLocaton", "/c")
    assert caught.value.hint == "did you mean checkpointLocation?"
    with pytest.raises(ConfigError, match="checkpointLocation: is not given"):
        writer().start()
    with pytest.raises(ConfigError, match="jobId: is not given"):
        writer().save()
    with pytest.raises(ConfigError, match="jobId: is for a DataFrame"):
        writer().options(checkpointLocation="/c", jobId="j").start()
    with pytest.raises(ConfigError, match="checkpointLocation: is for a stream"):
        writer().options(checkpointLocation="/c", jobId="j").save()
    with pytest.raises(ConfigError, match=r"kafka.bootstrap.servers: is not given"):
        writer().option("jobId", "j").save()


def test_the_builder_takes_the_output_mode_that_it_has() -> None:
    built = writer()
    assert built.outputMode("append") is built
    for mode in ("update", "complete", "overwrite"):
        with pytest.raises(ConfigError, match=f"outputMode: is '{mode}'"):
            built.outputMode(mode)
