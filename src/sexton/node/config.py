"""How one broker behaves: Kafka's broker options that matter to a node, with Kafka's defaults."""

from __future__ import annotations

from dataclasses import field

from sexton.base.lazy_dataclass import dataclass
from sexton.log.config import LogConfig


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """A field is the option's name with underscores."""

    node_id: int
    log: LogConfig = field(default_factory=LogConfig)  # what a topic does not say itself
    endpoint: tuple[str, ...] = ()  # where others reach it; opaque to the node
    rack: str | None = None
    log_dir: str = "log"  # what it is called when somebody asks; the node itself has a `Disk`
    min_insync_replicas: int = 1
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True
    num_partitions: int = 1  # of a topic that is created because somebody asked for it
    default_replication_factor: int = 1
    broker_heartbeat_interval_ms: int = 2_000
    broker_session_timeout_ms: int = 9_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100  # until a marker is sent again; ours, not Kafka's
    replica_lag_time_max_ms: int = 30_000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_max_bytes: int = 1 << 20
    replica_fetch_response_max_bytes: int = 10 << 20
    replica_fetch_backoff_ms: int = 1_000
    max_incremental_fetch_session_cache_slots: int = 1_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    log_retention_check_interval_ms: int = 300_000
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_dedupe_buffer_size: int = 128 << 20
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * 24 * 60 * 60 * 1000
    transaction_state_log_num_partitions: int = 50
    # Or as many as there are brokers, if those are fewer: Kafka would rather have no coordinator in
    # a small cluster, which is of no use to anybody here.
    transaction_state_log_replication_factor: int = 3
    transaction_state_log_min_isr: int = 2
    transaction_state_log_segment_bytes: int = 100 << 20
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3  # or as many as there are brokers, if fewer
    offsets_topic_segment_bytes: int = 100 << 20
    group_initial_rebalance_delay_ms: int = 3_000  # an embedded cluster is better off with 0
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2**31 - 1
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    # Between two assignments of a group, however often it changes; tests are better off with 0.
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_regex_refresh_interval_ms: int = 600_000
    offsets_retention_minutes: int = 7 * 24 * 60
    offsets_retention_check_interval_ms: int = 600_000
    # For the lab only, 0 is never: markers are acknowledged so much before the group's offsets are
    # applied, and fetches do not wait for them (KAFKA-17507, before apache/kafka#18168).
    lab_markers_acknowledged_before_offsets_ms: int = 0
