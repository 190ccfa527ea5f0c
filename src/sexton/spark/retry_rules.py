"""What the order of a retry pipeline rests on, beside the sink's own rules (`sink_protocol.Rules`).

Nobody but a test has others: it leaves one out, and finds rows that overtook others, or are lost,
or a query that ends.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryRules:
    redirects: bool = True  # behind a row that failed, those of its key are not run
    remembers: bool = True  # whoever takes over reads what waits before it runs anything
    keeps: bool = True  # notes and records are of the same run of the handler
    unchanged: bool = True  # what was read is good only while nobody else has written
    weighs: bool = True  # an output that will not be taken fails its message, before it is sent


RETRY_RULES = RetryRules()
