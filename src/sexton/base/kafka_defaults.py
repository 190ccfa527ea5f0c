"""Defaults of Kafka's that several packages reckon with, where a cluster does not say its own."""

from __future__ import annotations

TRANSACTION_MAX_TIMEOUT = "transaction.max.timeout.ms"
TRANSACTION_MAX_TIMEOUT_MS = 900_000  # no transaction may take longer
