"""How the guard is doing, in Prometheus's text format.

What one wants to be woken for: `sexton_guard_up` is 0 (nobody looks), `sexton_guard_findings` of
severity error above 0 (something needs a person), `sexton_guard_disk_seconds_left` below a day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sexton.guard.status import Status
from sexton.report.prometheus import Labels, Sample, exposition

# Every metric there is: kind and meaning. docs/how-to/run-the-guard.md lists the same.
METRICS: dict[str, tuple[str, str]] = {
    "sexton_guard_up": ("gauge", "1 if the last look at the cluster worked."),
    "sexton_guard_last_seen_seconds": (
        "gauge", "When the cluster was last seen, in seconds since 1970.",
    ),
    "sexton_guard_reaction_seconds": (
        "gauge", "Worst time from a replica's leaving the ISR to the freeze.",
    ),
    "sexton_guard_topics": ("gauge", "Compacted topics, by state."),
    "sexton_guard_unprotected_topics": (
        "gauge", "Compacted topics whose delete.retention.ms is shorter than the reaction.",
    ),
    "sexton_guard_frozen_since_seconds": (
        "gauge", "Since when a topic has not been free, in seconds since 1970.",
    ),
    "sexton_guard_held_back_bytes": (
        "gauge", "How much a frozen topic has grown since, on all brokers together.",
    ),
    "sexton_guard_disk_seconds_left": (
        "gauge", "Time until a broker's disk is full, if its frozen topics keep growing so.",
    ),
    "sexton_guard_findings": ("gauge", "Findings, by code and severity."),
    "sexton_guard_rounds_total": ("counter", "Looks at the cluster, by outcome."),
    "sexton_guard_requests_total": ("counter", "Requests to brokers, by API."),
    "sexton_guard_notes_total": ("counter", "Notes that were written to the memory, by state."),
    "sexton_guard_freezes_total": ("counter", "Topics that were frozen."),
    "sexton_guard_thaws_total": ("counter", "Topics that were set back."),
    "sexton_guard_round_seconds": ("gauge", "How long the last look and all that followed took."),
}  # fmt: skip


def text(status: Status, counters: Counter[tuple[str, Labels]], round_s: float) -> str:
    return exposition(METRICS, _samples(status, counters, round_s))


def _samples(
    status: Status, counters: Counter[tuple[str, Labels]], round_s: float
) -> Iterator[Sample]:
    yield "sexton_guard_up", (), float(status.not_seen is None and status.last_seen_ms is not None)
    yield "sexton_guard_last_seen_seconds", (), (status.last_seen_ms or 0) / 1000
    yield "sexton_guard_reaction_seconds", (), status.reaction_ms / 1000
    yield "sexton_guard_round_seconds", (), round(round_s, 3)
    states = Counter(topic.state for topic in status.topics)
    for state in sorted({*states, "free", "frozen"}):
        yield "sexton_guard_topics", (("state", state),), states[state]
    unprotected = sum(1 for topic in status.topics if not topic.protected)
    yield "sexton_guard_unprotected_topics", (), unprotected
    for topic in status.topics:
        if topic.since_ms is not None:
            of_topic = (("topic", topic.topic),)
            yield "sexton_guard_frozen_since_seconds", of_topic, topic.since_ms / 1000
            if topic.held_back_bytes is not None:
                yield "sexton_guard_held_back_bytes", of_topic, topic.held_back_bytes
    for broker in status.brokers:
        if broker.seconds_left is not None:
            at = (("broker", str(broker.broker)),)
            yield "sexton_guard_disk_seconds_left", at, round(broker.seconds_left)
    found = Counter((finding.code, finding.severity) for finding in status.findings)
    for (code, severity), count in sorted(found.items()):
        yield "sexton_guard_findings", (("code", code), ("severity", severity)), count
    for (name, labels), count in sorted(counters.items()):
        yield name, labels, count
