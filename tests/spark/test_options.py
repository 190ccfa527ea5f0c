"""Is what the user wrote understood, or refused with a word that helps?"""

from __future__ import annotations

import re

import pytest

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.client.replica import Isolation
from sexton.spark.bounds import At, Edge, From
from sexton.spark.options import SourceOptions, parse

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
ORDERS = TopicPartition("orders", 0)


def parsed(streaming: bool = False, **options: str) -> SourceOptions:
    named = {name.replace("__", "."): value for name, value in options.items()}
    return parse({**SERVERS, "subscribe": "orders", **named}, streaming=streaming)


def test_defaults_are_sparks() -> None:
    options = parsed()
    assert options.topics is not None and options.topics.names == ("orders",)
    assert (options.start.of(ORDERS), options.end.of(ORDERS)) == (Edge.EARLIEST, Edge.LATEST)
    assert options.isolation is Isolation.READ_UNCOMMITTED
    assert options.fail_on_data_loss
    assert options.columns[:3] == ("key", "value", "topic") and len(options.columns) == 7
    assert parsed(streaming=True).start.of(ORDERS) is Edge.LATEST


def test_names_come_in_any_case() -> None:
    options = parse({**SERVERS, "SUBSCRIBE": " a , b ", "INCLUDEHEADERS": "TRUE"})
    assert options.topics is not None and options.topics.names == ("a", "b")
    assert options.columns[-1] == "headers"


def test_bounds_are_offsets_times_or_edges() -> None:
    given = parsed(startingOffsets='{"orders": {"0": 23, "1": -2, "2": -1}}').start
    found = [given.of(TopicPartition("orders", number)) for number in range(3)]
    assert found == [At(23), Edge.EARLIEST, Edge.LATEST]
    assert parsed(startingTimestamp="1700000000000").start.of(ORDERS) == From(1700000000000, False)
    late = parsed(startingTimestamp="5", startingOffsetsByTimestampStrategy="latest")
    assert late.start.of(ORDERS) == From(5, True)
    each = parsed(endingOffsetsByTimestamp='{"orders": {"0": 7}}')
    assert each.end.of(ORDERS) == From(7, True)


def test_columns_can_be_chosen() -> None:
    assert parsed(columns="offset, KEY").columns == ("offset", "key")
    assert parsed(columns="offset,outcome").with_transactions


def test_a_password_is_not_shown() -> None:
    options = parsed(
        kafka__security__protocol="SASL_PLAINTEXT", kafka__sasl__mechanism="PLAIN",
        kafka__sasl__username="ada", kafka__sasl__password="secret",
    )  # fmt: skip
    assert "secret" not in repr(options)
    assert options.client_config().authenticate is not None


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"startingOffset": "earliest"}, r"startingoffset: is not an option .*startingOffsets\?"),
        ({"bootstrap.servers": "h:1"}, r"did you mean kafka.bootstrap.servers\?"),
        ({"kafka.bootstrap.server": "h:1"}, r"did you mean kafka.bootstrap.servers\?"),
        ({"kafka.group.id": "g"}, "kafka.group.id: does nothing here"),
        ({"kafka.ssl.keystore": "x"}, "ssl.keystore: is not understood"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss: is 'no'"),
        ({"minPartitions": "0"}, "minPartitions: is '0'"),
        ({"kafka.isolation.level": "committed"}, "kafka.isolation.level: is 'committed'"),
        ({"startingOffsets": "latest"}, "a batch cannot begin at the end"),
        ({"endingOffsets": "earliest"}, "a batch cannot end at the beginning"),
        ({"startingOffsets": '{"orders": {"0": "x"}}'}, "startingOffsets: .* cannot be understood"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "-3 of orders-0 is not an offset"),
        ({"startingTimestamp": "1", "startingOffsets": "earliest"}, "say the same thing twice"),
        ({"assign": '{"orders": [0]}'}, "subscribe or assign: only one of them"),
        ({"replica": "every"}, "replica: is 'every'"),
        ({"replica": "1", "path": "/logs"}, "replica: means nothing for files"),
        ({"columns": "key,ofset"}, r"columns: there is no ofset .*offset\?"),
        ({"maxOffsetsPerTrigger": "5"}, "is for streams"),
        # What Spark's own source takes, and what people have set for its consumer.
        ({"groupIdPrefix": "g"}, "groupIdPrefix: does nothing here: no consumer group"),
        ({"fetchOffset.numRetries": "3"}, r"fetchOffset.numRetries: .* kafka.default.api.timeout"),
        ({"minOffsetsPerTrigger": "5"}, "minOffsetsPerTrigger: is not there yet.*processingTime"),
        ({"maxTriggerDelay": "15m"}, "maxTriggerDelay: is not there yet"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset: .*startingOffsets"),
        ({"kafka.value.deserializer": "x"}, "kafka.value.deserializer: .* bytes"),
        ({"kafka.max.poll.records": "9"}, r"kafka.max.poll.records: is not .*\(there are kafka\."),
        ({"kafka.session.timeout.ms": "9"}, r"\(there are kafka\.bootstrap.*kafka\.sasl"),
        ({"topic": "orders"}, r"topic: is not an option .*\(there are subscribe"),
    ],
)
def test_a_mistake_is_named(options: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse({**SERVERS, "subscribe": "orders", **options})
    assert re.search(why, f"{caught.value} {caught.value.hint}"), caught.value


@pytest.mark.parametrize(
    "value",
    ['{"orders": "12"}', '{"orders": [0.5]}', '{"orders": ["0"]}', '{"orders": [-1]}',
     '{"orders": [true]}', '{"orders": {"0": 1}}', "{}", "[]", "orders"],
)  # fmt: skip
def test_partitions_are_listed_by_their_numbers(value: str) -> None:
    with pytest.raises(ConfigError, match=r"assign: .* does not name partitions"):
        parse({**SERVERS, "assign": value})


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("orders-*(", "missing"),
        (r"\Qorders\E", "bad escape"),
        ("[a-z&&[^b]].*", "a set in a set, or &&"),  # other topics than Java's would be read
        ("[a-z&&c-f]", "a set in a set, or &&"),
        ("[a[bc]]", "a set in a set, or &&"),
        ("[^[:alpha:]]", "a set in a set, or &&"),
        ("", "it is empty"),
    ],
)
def test_a_pattern_that_java_reads_otherwise_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"subscribePattern: .*{why}.*Python"):
        parse({**SERVERS, "subscribePattern": pattern})


@pytest.mark.parametrize(
    "pattern", ["orders.*", "(a|b)[-_.]\\d+", "[a]&&[b]", "[]a]x[b]", "[a\\[]", "(?i)ORDERS", "a++"]
)
def test_other_patterns_are_taken(pattern: str) -> None:
    topics = parse({**SERVERS, "subscribePattern": pattern}).topics
    assert topics is not None and topics.pattern == pattern


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="which topics"):
        parse(SERVERS)
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers: is not given"):
        parse({"subscribe": "orders"})
    for name in ("replica", "endingOffsets", "path"):
        with pytest.raises(ConfigError, match="is for batch reads"):
            parsed(streaming=True, **{name: "1"})
