"""What a handler may raise; the same for services and for Spark, so it is the machines' to know."""

from __future__ import annotations

from sexton.machines.retry_outcomes import (
    Dead,
    Drop,
    Errors,
    Retry,
    Verdict,
    check_errors,
    failure_of,
    outcome_of,
)

__all__ = [
    "Dead",
    "Drop",
    "Errors",
    "Retry",
    "Verdict",
    "check_errors",
    "failure_of",
    "outcome_of",
]
