"""Kafka's options, as far as several packages speak of them: their spelling and some defaults."""

from __future__ import annotations

# Where a cluster does not say its own.
TRANSACTION_MAX_TIMEOUT = "transaction.max.timeout.ms"
TRANSACTION_MAX_TIMEOUT_MS = 900_000  # no transaction may take longer


def spelled(value: object) -> str:
    """As Kafka writes it in files and requests: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
