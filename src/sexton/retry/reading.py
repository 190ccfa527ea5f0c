"""The retry topic's messages as a handler gets them; how they are read is the client's to know."""

from __future__ import annotations

from sexton.client.retry_reading import (
    committed_columns,
    headers_at,
    mark_end,
    read_to,
    retry_records,
)
from sexton.machines.retry_records import RetryRecord
from sexton.retry.messages import Payload

__all__ = [
    "committed_columns",
    "headers_at",
    "mark_end",
    "payload_in",
    "read_to",
    "retry_records",
]


def payload_in(record: RetryRecord) -> Payload:
    return Payload(record.key, record.value, record.headers, record.timestamp_ms)
