"""A run that fails soon: brokers are cut off while tombstones may go after a minute.

The policy is Apache Kafka's, so that a broker which comes back still has what was deleted.
"""

from __future__ import annotations

from functools import cache

from sexton.sim.replay import Replay, replay_options
from sexton.sim.shrinking import Failure, attempt

FAULTS = "isolated-broker,changed-retention,one-way-cut"
HOURS = 12
SETTINGS = (
    "partitions=1",
    "keys=30",
    "deletes=0.5",
    "writers=2",
    "write_pause_ms=180000",
    "transactional_writers=0",
    "segment_bytes=600",
    "segment_ms=3600000",
    "dirty_ratio=0.0",
    "fault_pause_ms=2400000",
    "fault_lasts_ms=14400000",
)
SEEDS = range(5, 36)


@cache
def failing() -> Failure:
    """The first seed in which a deleted key returns."""
    for seed in SEEDS:
        options = replay_options(seed, HOURS, "independent", FAULTS, SETTINGS)
        failure = attempt(Replay(options), True)
        if failure is not None and failure.violation.kind == "deleted-key-lives":
            return failure
    raise AssertionError(f"no deleted key returned in {len(SEEDS)} seeds")
