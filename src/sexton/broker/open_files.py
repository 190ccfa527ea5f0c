"""How many files a broker may hold open.

A log is three files, and a cluster in one process has those of all its brokers: at the usual limit
of 1,024 a hundred partitions with three replicas are too many. That limit is the soft one, which a
process may raise up to the hard one, as Java does for Kafka.
"""

from __future__ import annotations

MOST = 1 << 20  # some kernels refuse a larger number, even if their own limit is "unlimited"


def raise_limit() -> int | None:
    """Allows as many as one may; returns how many these are, None where there is no such limit."""
    try:
        import resource
    except ImportError:  # not Unix
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # macOS has another limit below, which it does not tell
        return soft
    return wanted
