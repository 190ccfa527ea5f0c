from __future__ import annotations

import pytest

from sexton.base.errors import ConfigError
from sexton.broker.cluster import ClusterConfig
from sexton.broker.options import known_options
from sexton.broker.server_options import INSTEAD, WITHOUT_EFFECT, understand


def understood(**options: str) -> ClusterConfig:
    dotted = {name.replace("_", "."): value for name, value in options.items()}
    return understand(dotted, ClusterConfig()).config


def test_an_option_reaches_everyone_who_has_it() -> None:
    config = understood(broker_session_timeout_ms="3000", log_segment_bytes=" 1048576 ")
    assert config.broker.broker_session_timeout_ms == 3000
    assert config.controller.broker_session_timeout_ms == 3000
    assert config.broker.log.segment_bytes == 1 << 20


def test_hours_are_milliseconds_and_the_finer_one_wins() -> None:
    assert understood(log_retention_hours="2").broker.log.retention_ms == 7_200_000
    both = understood(log_retention_hours="2", log_retention_minutes="3")
    assert both.broker.log.retention_ms == 180_000
    assert understood(log_retention_hours="2", log_retention_ms="5").broker.log.retention_ms == 5
    assert understood(log_retention_hours="-1").broker.log.retention_ms == -1
    assert understood(log_roll_hours="1").broker.log.segment_ms == 3_600_000


def test_what_means_nothing_here_is_named_and_passed_over() -> None:
    given = {"num.io.threads": "8", "log.preallocate": "true", "num.partitions": "4"}
    result = understand(given, ClusterConfig())
    assert result.without_effect == ("num.io.threads", "log.preallocate")
    assert result.config.broker.num_partitions == 4


@pytest.mark.parametrize("option", sorted(INSTEAD))
def test_what_is_done_otherwise_here_says_how(option: str) -> None:
    with pytest.raises(ConfigError) as caught:
        understand({option: "1"}, ClusterConfig())
    assert caught.value.hint == INSTEAD[option]


def test_a_slip_of_the_pen_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(ConfigError) as caught:
        understand({"num.partition": "4"}, ClusterConfig())
    assert caught.value.hint == "did you mean num.partitions?"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("num.partitions", "many"),
        ("auto.create.topics.enable", "perhaps"),
        ("log.cleanup.policy", "shred"),
        ("log.compaction.policy", "careless"),
        ("log.retention.hours", "a day"),
        ("log.cleaner.min.cleanable.ratio", "1.5"),
        ("log.cleaner.enable", "false"),
        ("compression.type", "rar"),
    ],
)
def test_an_impossible_value_is_an_error_that_names_its_option(option: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        understand({option: value}, ClusterConfig())
    assert caught.value.subject == option


def test_no_option_stands_in_two_tables() -> None:
    assert not WITHOUT_EFFECT & set(INSTEAD)
    assert not WITHOUT_EFFECT & set(known_options()), "it has an effect by now"
