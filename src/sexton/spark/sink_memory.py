"""How long does Kafka remember a marker, and what has to be known before the first batch of a run?

Kafka forgets what a group has committed after `offsets.retention.minutes`. Whoever comes later
finds no marker, as if nothing had been written. For all batches but the first that is a gap, and
refused. The first one is right to have none; unless an earlier run has written it, died before
Spark could note that, and rested for longer than Kafka remembers. Spark's plan of the batch is as
old as that then: a batch whose plan is younger has its marker, or was never written.

A new checkpoint has no old plan. Under a name whose marker was forgotten it is a new pipeline, and
nobody can tell.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

from sexton.base.errors import PeerError, Refused
from sexton.client.client import Client
from sexton.client.connection import refused
from sexton.client.transacting import group_offsets
from sexton.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from sexton.spark.sink_marker import Batch, elsewhere
from sexton.spark.sink_protocol import Plan

LEAST_MS: Final = 60_000  # Kafka takes no shorter one
USUAL_MS: Final = 7 * 24 * 3600 * 1000  # if nobody has changed it
_BROKER: Final = 4  # Kafka's ConfigResource.Type
_RETENTION: Final = "offsets.retention.minutes"


async def looked_back(plan: Plan, client: Client) -> Plan:
    """With what is known of earlier runs; SinkRefused if these have kept their marker elsewhere.

    A coordinator that was replaced may answer: the one that takes the new marker is asked again.
    """
    if plan.batch.committed_before:
        return plan
    offsets = await group_offsets(client, plan.group, plan.patience)
    refusal = elsewhere(plan.batch, plan.marker_at, offsets, plan.group)
    if refusal is not None:
        raise refusal
    if plan.batch.number > 0 or not is_older(plan.batch, LEAST_MS):
        return plan
    forgotten = is_older(plan.batch, await retention_ms(client))
    return replace(plan, batch=replace(plan.batch, may_be_forgotten=forgotten))


def is_older(batch: Batch, retention_ms: int | None) -> bool:
    """Was it planned so long ago, by the clock of the driver? None: as long as is usual."""
    if batch.planned_ms <= 0:  # nobody knows, or not yet
        return False
    kept_ms = USUAL_MS if retention_ms is None else retention_ms
    return time.time_ns() // 1_000_000 - batch.planned_ms >= kept_ms


async def retention_ms(client: Client) -> int | None:
    """The shortest of all brokers: any of them may come to coordinate the group. None: not told.

    One that is away for the moment is most often set up as the others are.
    """
    found = []
    for node in sorted((await client.topology([])).brokers):
        resource = DescribeConfigsResource(_BROKER, str(node), [_RETENTION])
        try:
            answer = await (await client.broker(node)).ask(DescribeConfigsRequest([resource]))
            for result in answer.results:
                if result.error_code:
                    raise refused(result.error_code, f"options of broker {node}")
                found += [int(each.value) for each in result.configs if each.value]
        except PeerError:
            continue
        except Refused:  # not everybody may see them
            return None
    return min(found) * 60_000 if found else None
