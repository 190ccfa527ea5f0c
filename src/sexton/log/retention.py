"""Which segments have had their time?

From the first one on, as long as each is whole below the high watermark and one of these holds:

    too old       its newest record is older than `retention.ms`      if `cleanup.policy` deletes
    too much      without it there is still `retention.bytes` left    if `cleanup.policy` deletes
    below start   all its records are below the log start offset      always

A segment that cleaning has emptied has no newest record, and when its files were made says nothing
after a restart. It holds up nobody, and goes with the next one that goes: never earlier, for then
the log would begin later although nothing in it had to go.
"""

from __future__ import annotations

from sexton.log.config import LogConfig
from sexton.log.segment import Segment
from sexton.records.layout import NO_TIMESTAMP


def count_expired(
    segments: list[Segment],
    config: LogConfig,
    *,
    log_start_offset: int,
    high_watermark: int,
    now_ms: int,
) -> int:
    """How many of them may go."""
    doomed = 0
    spare = sum(segment.size for segment in segments) - config.retention_bytes
    for number, segment in enumerate(segments):
        is_last = number == len(segments) - 1
        end = segment.end_offset if is_last else segments[number + 1].base_offset
        newest = segment.max_timestamp.timestamp
        last_touched = segment.created_ms if newest == NO_TIMESTAMP else newest
        too_old = config.deletes and 0 <= config.retention_ms < now_ms - last_touched
        too_much = config.deletes and config.retention_bytes >= 0 and spare >= segment.size
        below_start = not is_last and end <= log_start_offset
        if end > high_watermark:
            break
        if segment.size == 0 and not below_start:
            continue
        if not (too_old or too_much or below_start):
            break
        doomed = number + 1
        spare -= segment.size
    return doomed
