"""When may the next transaction begin, so that it need not wait?

A broker may answer a commit before it has written all of its markers, as Apache Kafka does. Whoever
adds partitions to the next transaction by then is told to come back, and librdkafka does so after
20 ms, whatever one sets:

    at once         commit ✓ add partitions ✗ ─────────── 20 ms ─────────── add partitions ✓
    a moment later  commit ✓ ─ 2 ms ─ add partitions ✓

How long the moment has to be depends on the brokers, so it is learned: a commit that took as long
as such a wait makes it longer, all others make it a little shorter. It counts from the end of the
last commit; where handlers take longer than that, nobody waits at all.
"""

from __future__ import annotations

from time import monotonic

LATE_S = 0.015  # a commit that had to wait for its partitions takes longer, others rarely do
STEP_S = 0.001
LESS = 1 / 50  # of a step: one transaction in fifty may find out that it was too much
MOST_S = 0.005  # a quarter of what it saves


class Pacing:
    def __init__(self) -> None:
        self.pause_s = 0.0
        self._ended_s = 0.0

    def wait_s(self) -> float:
        """Before the next transaction begins."""
        return max(0.0, self._ended_s + self.pause_s - monotonic())

    def learn(self, commit_s: float) -> None:
        """A commit has ended, and took so long."""
        self._ended_s = monotonic()
        if commit_s >= LATE_S:
            self.pause_s = min(self.pause_s + STEP_S, MOST_S)
        else:
            self.pause_s = max(self.pause_s - LESS * STEP_S, 0.0)
