"""What to do about each finding, in a sentence, and where the whole story is told."""

from __future__ import annotations

from typing import Final

from sexton.base.findings import Severity

_REBUILD = "keep it from leading, and rebuild it from a correct one with `sexton repair`"

REMEDIES: Final[dict[str, str]] = {
    "tombstone-divergence": f"A replica has brought back a deleted key; {_REBUILD}.",
    "aborted-as-committed": f"A replica shows records that were aborted; {_REBUILD}.",
    "committed-as-aborted": f"A replica hides records that were committed; {_REBUILD}.",
    "stuck-partition": (
        f"The transaction has ended, but this replica will never know; do not abort it: {_REBUILD}."
    ),
    "missing-record": f"A replica has lost a committed record; {_REBUILD}.",
    "marker-mismatch": (
        "Data is closed by the marker of another transaction; compare with the other replicas, and "
        "if one of them does not have this, rebuild this one with `sexton repair`."
    ),
    "hanging-transaction": (
        "Nobody will end this transaction, and read_committed consumers wait for it; make sure "
        "that its producer is gone, then run `sexton txn abort`."
    ),
    "corrupt-batch": f"Bytes on a disk have changed; check that disk, then {_REBUILD}.",
    "offset-gap": "No replica holds these offsets; was the topic compacted before?",
}
SEVERITIES: Final[dict[str, Severity]] = {
    "hanging-transaction": "warning",
    "offset-gap": "note",
}


GUIDE: Final = "docs/how-to/when-the-audit-finds-something.md"


def runbook(code: str) -> str:
    return f"docs/runbook/{code}.md"


def remedy(code: str) -> str:
    return f"{REMEDIES[code]} See {runbook(code)}."


def severity(code: str) -> Severity:
    return SEVERITIES.get(code, "error")
