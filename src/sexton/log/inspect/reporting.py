"""Findings about one partition on their way out, none of them a thousand times.

One flipped bit can make ten thousand batches look wrong. The first few of a kind in a file are
told with all their evidence; the rest is counted and told once, at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sexton.base.findings import Evidence, Finding, Severity

if TYPE_CHECKING:
    from sexton.records import BadBatch

MOST_ALIKE = 10

REPLACE = (
    "take this replica out of service and let it copy the partition from a healthy one;"
    " do not restart the broker first: it may cut the log here"
)


class Reporter:
    """Counts every finding and passes the first of each kind on."""

    def __init__(self, report: Callable[[Finding], None], skip: Callable[[str, str], None]) -> None:
        self.counts: Counter[Severity] = Counter()
        self.skip = skip  # told (path, why) of what could not be read
        self._report = report
        self._alike: Counter[tuple[str, str, Severity]] = Counter()

    def say(
        self,
        code: str,
        severity: Severity,
        where: str,
        message: str,
        evidence: dict[str, Evidence] | None = None,
        remedy: str | None = None,
    ) -> None:
        self.tell(Finding(code, severity, where, message, evidence or {}, remedy))

    def tell(self, finding: Finding) -> None:
        alike = finding.code, finding.where.partition(" at byte ")[0], finding.severity
        self._alike[alike] += 1
        self.counts[finding.severity] += 1
        if self._alike[alike] <= MOST_ALIKE:
            self._report(finding)

    def bad_batch(self, path: Path, position: int, bad: BadBatch) -> None:
        evidence: dict[str, Evidence] = {"base_offset": bad.base_offset}
        self.say("corrupt-batch", "error", at(path, position), bad.why, evidence, REPLACE)

    def finish(self) -> None:
        """The partition has been read."""
        for (code, file, severity), count in self._alike.items():
            more = count - MOST_ALIKE
            if more > 0:
                message = f"{more} more like this in this file"
                self._report(Finding(code, severity, file, message, {"count": more}))

    def read(self, path: Path) -> bytes | None:
        """The content of a small file, or None.

        A missing index or snapshot is no fault, since a broker builds it when it starts; one that
        cannot be read is said to have been left out.
        """
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self.skip(str(path), os_fault(error))
            return None


def os_fault(error: OSError) -> str:
    """What the system says, as part of a sentence: `permission denied`."""
    why = error.strerror or str(error)
    return why[:1].lower() + why[1:]


def at(path: Path, position: int) -> str:
    """How a place in a file is written everywhere."""
    return f"{path} at byte {position}"
