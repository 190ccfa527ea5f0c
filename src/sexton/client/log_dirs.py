"""How large each replica is on its broker's disk, by DescribeLogDirs."""

from __future__ import annotations

from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import refused
from sexton.protocol.messages.describe_log_dirs import DescribeLogDirsRequest


async def sizes_of(client: Client, node: int) -> dict[TopicPartition, int]:
    """Bytes of every replica on one broker; Refused to those who may not DESCRIBE the cluster."""
    connection = await client.broker(node)
    answer = await connection.ask(DescribeLogDirsRequest(topics=None))
    if answer.error_code:
        raise refused(answer.error_code, f"log directories of broker {node}")
    return {
        TopicPartition(topic.name, each.partition_index): each.partition_size
        for directory in answer.results
        for topic in directory.topics
        for each in topic.partitions
        if not each.is_future_key
    }
