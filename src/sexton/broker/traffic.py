"""What one broker's clients cost: counted as it happens, read by whoever collects metrics."""

from __future__ import annotations

from dataclasses import field

from sexton.base.lazy_dataclass import dataclass


@dataclass(slots=True)
class Requests:
    """Of one API."""

    count: int = 0
    bytes_in: int = 0
    answered: int = 0
    seconds: float = 0.0  # from the whole request to its answer, over all that were answered


@dataclass(slots=True)
class Traffic:
    """Counts only go up, from the start of the process."""

    bytes_in: int = 0
    bytes_out: int = 0
    connections: int = 0  # that were taken
    turned_away: int = 0  # too many were there
    hung_up: int = 0  # sent what no client sends
    unauthenticated: int = 0  # said who they are, and it was not true
    idled: int = 0  # nothing came or went for too long, or nothing came at all
    heaviest: int = 0  # had to go because all together held too much memory
    by_api: dict[str, Requests] = field(default_factory=dict)

    def asked(self, api: str, size: int) -> None:
        requests = self.by_api.get(api)
        if requests is None:
            requests = self.by_api[api] = Requests()
        requests.count += 1
        requests.bytes_in += size

    def answered(self, api: str, seconds: float) -> None:
        requests = self.by_api[api]
        requests.answered += 1
        requests.seconds += seconds
