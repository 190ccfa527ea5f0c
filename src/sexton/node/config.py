"""How one broker behaves: Kafka's broker options that matter to a node, with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

from sexton.log.config import LogConfig


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """A field is the option's name with underscores."""

    node_id: int
    log: LogConfig = field(default_factory=LogConfig)  # what a topic does not say itself
    endpoint: tuple[str, ...] = ()  # where others reach it; opaque to the node
    rack: str | None = None
    min_insync_replicas: int = 1
    broker_heartbeat_interval_ms: int = 2_000
    broker_session_timeout_ms: int = 9_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    replica_lag_time_max_ms: int = 30_000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_max_bytes: int = 1 << 20
    replica_fetch_response_max_bytes: int = 10 << 20
    replica_fetch_backoff_ms: int = 1_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_retention_check_interval_ms: int = 300_000
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_dedupe_buffer_size: int = 128 << 20
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * 24 * 60 * 60 * 1000
    transaction_state_log_num_partitions: int = 50
    offsets_topic_num_partitions: int = 50
    offsets_retention_minutes: int = 7 * 24 * 60
    offsets_retention_check_interval_ms: int = 600_000
