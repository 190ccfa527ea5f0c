"""What a log does when options that were set at different places do not go together."""

from __future__ import annotations

from sexton.log.config import LogConfig
from sexton.machines.metadata import ConfigRecord, Image
from sexton.node.topic_options import dynamic_options, log_config

OF_TOPIC = ConfigRecord(
    "topic", "t", (("cleanup.policy", "compact"), ("min.compaction.lag.ms", "1000"))
)
OF_ALL_BROKERS = ConfigRecord(
    "broker", "", (("log.cleaner.max.compaction.lag.ms", "500"), ("log.segment.bytes", "5000"))
)


def chosen(static: LogConfig, *records: ConfigRecord) -> LogConfig:
    return log_config(static, dynamic_options(Image.of(records), 1, "t"))


def test_a_compacted_topic_stays_one_whatever_is_set_for_all_brokers() -> None:
    config = chosen(LogConfig(), OF_ALL_BROKERS, OF_TOPIC)
    assert (config.cleanup_policy, config.min_compaction_lag_ms) == ("compact", 1000)
    assert config.max_compaction_lag_ms == LogConfig().max_compaction_lag_ms
    assert config.segment_bytes == 5000  # which contradicts nobody


def test_a_compacted_topic_stays_one_whatever_a_broker_was_started_with() -> None:
    config = chosen(LogConfig(max_compaction_lag_ms=500), OF_TOPIC)
    assert (config.cleanup_policy, config.min_compaction_lag_ms) == ("compact", 0)
