"""The topics of a service that retries: those of any pipeline that does, on Spark as well."""

from __future__ import annotations

from sexton.client.retry_topics import Names, Shape, check, prepare

__all__ = ["Names", "Shape", "check", "prepare"]
