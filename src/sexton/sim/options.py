"""One seed decides everything: how large the cluster is, what is done to it, how clocks tick.

Timers that are about forgetting have Kafka's defaults: 24 hours until a tombstone may go, 24 hours
until a silent producer is forgotten. Those that are about noticing each other are stretched by one
factor, all alike, so that days pass in seconds: nothing depends on how long a heartbeat takes, only
on heartbeats being much faster than sessions, and sessions than retention.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from random import Random

from sexton.log.config import LogConfig
from sexton.machines.controller import ControllerConfig
from sexton.node.config import BrokerConfig
from sexton.sim.faults import FAULTS, OF_INSTANCES

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
WITH_STORES = 0.4  # of all seeds


@dataclass(frozen=True, slots=True)
class Options:
    seed: int
    hours: int = 72
    policy: str = "coordinated"
    brokers: int = 4
    partitions: int = 1
    keys: int = 12
    writers: int = 2
    transactional_writers: int = 3
    transaction_version: int = 0  # 0: some speak 1, some 2
    write_pause_ms: int = 4 * MINUTE_MS
    deletes: float = 0.35
    segment_bytes: int = 2_000
    segment_ms: int = 2 * HOUR_MS
    dirty_ratio: float = 0.1
    min_insync_replicas: int = 1
    stretch: int = 30  # heartbeats, fetches and the like take so many times longer
    fetch_bytes: int = 1 << 20  # that a follower gets at once; a batch at least
    faults: tuple[str, ...] = ()
    fault_pause_ms: int = 90 * MINUTE_MS
    fault_lasts_ms: int = 60 * MINUTE_MS
    unclean: bool = False
    tidy_days: int = 4  # after healing, until all that may go must be gone; 0: nobody looks
    stores: int = 0  # instances of an application with state stores; 0: there is none
    store_pause_ms: int = 15 * MINUTE_MS  # between its commits, and looks at the changelog
    store_retention_ms: int = 24 * HOUR_MS  # delete.retention.ms of its changelog
    # Mistakes that can be switched on: those of the lab's eos-checkpoint and eos-offsets.
    trust_local_checkpoint: bool = False
    offsets_applied_late_ms: int = 0  # markers are acknowledged so much earlier

    @classmethod
    def of(cls, seed: int, hours: int = 72, policy: str = "coordinated") -> Options:
        """What a seed stands for. Each has its own mixture: some faults, not all at once."""
        random = Random(f"{seed} options")
        kinds = sorted(name for name in FAULTS if name not in OF_INSTANCES)
        chosen = random.sample(kinds, random.randint(4, 14))
        unclean = random.random() < 0.15
        if unclean:
            chosen.append("unclean-election")
        chosen += _of_stores(seed)
        return cls(
            seed=seed,
            hours=hours,
            policy=policy,
            partitions=random.choice((1, 1, 2)),
            keys=random.choice((3, 6, 12, 30)),
            writers=random.choice((1, 2, 3)),
            transactional_writers=random.choice((1, 2, 4)),
            transaction_version=random.choice((0, 1, 2)),
            write_pause_ms=random.choice((1, 3, 10)) * MINUTE_MS,
            deletes=random.choice((0.1, 0.3, 0.5)),
            segment_bytes=random.choice((600, 2_000, 6_000)),
            segment_ms=random.choice((1, 3)) * HOUR_MS,
            dirty_ratio=random.choice((0.0, 0.1, 0.5)),
            min_insync_replicas=random.choice((1, 1, 2)),
            faults=tuple(dict.fromkeys(chosen)),
            fetch_bytes=Random(f"{seed} fetches").choice((1 << 20, 1 << 20, 1 << 20, 1)),
            fault_pause_ms=random.choice((20, 60, 180)) * MINUTE_MS,
            fault_lasts_ms=random.choice((2, 20, 120, 900)) * MINUTE_MS,
            unclean=unclean,
            tidy_days=4 if policy == "coordinated" else 0,
            stores=3 if _of_stores(seed) else 0,
            store_retention_ms=Random(f"{seed} horizon").choice((2, 24)) * HOUR_MS,
        )

    def with_faults(self, *names: str) -> Options:
        return replace(self, faults=names)

    def text(self) -> str:
        """Every option, as they were expanded."""
        shown = asdict(self)
        shown["faults"] = ",".join(self.faults)
        return " ".join(f"{name}={value}" for name, value in shown.items())

    # ── what nodes are told ──

    def broker(self, node: int) -> BrokerConfig:
        slow = self.stretch
        return BrokerConfig(
            node_id=node,
            log=self._log(),
            min_insync_replicas=self.min_insync_replicas,
            broker_heartbeat_interval_ms=2_000 * slow,
            broker_session_timeout_ms=9_000 * slow,
            request_timeout_ms=2_000 * slow,
            retry_backoff_ms=1_000 * slow,
            replica_lag_time_max_ms=10_000 * slow,
            replica_fetch_wait_max_ms=6_000 * slow,
            replica_fetch_max_bytes=self.fetch_bytes,
            replica_fetch_backoff_ms=500 * slow,
            replica_high_watermark_checkpoint_interval_ms=5_000 * slow,
            log_retention_check_interval_ms=10_000 * slow,
            log_cleaner_backoff_ms=10_000 * slow,
            log_cleaner_dedupe_buffer_size=1 << 16,
            transaction_state_log_num_partitions=1,
            offsets_topic_num_partitions=1,
            lab_markers_acknowledged_before_offsets_ms=self.offsets_applied_late_ms,
        )

    def _log(self) -> LogConfig:
        return LogConfig(
            cleanup_policy="compact",
            compaction_policy=self.policy,
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            min_cleanable_dirty_ratio=self.dirty_ratio,
            index_interval_bytes=256,
        )

    def controller(self) -> ControllerConfig:
        return ControllerConfig(
            broker_session_timeout_ms=9_000 * self.stretch,
            broker_heartbeat_interval_ms=2_000 * self.stretch,
            replica_high_watermark_checkpoint_interval_ms=5_000 * self.stretch,
        )


def _of_stores(seed: int) -> list[str]:
    """What happens to instances with state stores; nothing: this seed has none."""
    random = Random(f"{seed} stores")
    if random.random() >= WITH_STORES:
        return []
    return random.sample(OF_INSTANCES, random.randint(1, 3))
