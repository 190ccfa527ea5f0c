"""How large the logs on a broker are, disk by disk, and how much room is left beside them."""

from __future__ import annotations

from dataclasses import dataclass

from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import refused
from sexton.protocol.messages.describe_log_dirs import DescribeLogDirsRequest


@dataclass(frozen=True, slots=True)
class LogDirectory:
    path: str
    sizes: dict[TopicPartition, int]  # bytes of each replica in it
    usable_bytes: int | None  # None: the broker does not say (before Kafka 3.3)


async def log_directories(client: Client, node: int) -> list[LogDirectory]:
    """One broker's directories; one that has failed is left out."""
    answer = await (await client.broker(node)).ask(DescribeLogDirsRequest(None))
    if answer.error_code:
        raise refused(answer.error_code, f"log directories of broker {node}")
    found = []
    for each in answer.results:
        if each.error_code:
            continue
        sizes = {
            TopicPartition(topic.name, p.partition_index): p.partition_size
            for topic in each.topics
            for p in topic.partitions
            if not p.is_future_key
        }
        usable = None if each.usable_bytes < 0 else each.usable_bytes
        found.append(LogDirectory(each.log_dir, sizes, usable))
    return found
