"""Findings of the audit as the findings that every command prints.

Keys are somebody's data: they are shown as a digest unless the user asks for them. Values are never
anything but digests.
"""

from __future__ import annotations

from sexton.audit.finding import AuditFinding
from sexton.base.digests import digest
from sexton.base.findings import Evidence, Finding


def key_in_words(key: bytes | None, *, plain: bool) -> str | None:
    """As a digest; if it may be shown as text, or in hexadecimal digits if it is none.

    So that no two keys look alike: one of these is given to `sexton repair`.
    """
    if key is None:
        return None
    if not plain:
        return digest(key)
    text = key.decode("utf-8", "replace")
    is_plain = text.isprintable() and text.encode() == key and not text.startswith("0x")
    return text if is_plain else "0x" + key.hex()


def finding_of(found: AuditFinding, *, plain_keys: bool = False) -> Finding:
    evidence: dict[str, Evidence] = {}
    if found.key is not None:
        evidence["key"] = key_in_words(found.key, plain=plain_keys)
    for node, offset in sorted(found.offsets.items()):
        evidence[f"offset on {node}"] = offset
    for node, value in sorted(found.values.items()):
        if value is not None:
            evidence[f"value on {node}"] = f"digest {value[:16]}"
    for each in found.transactions:
        evidence[f"producer {each.producer_id} on {each.node}"] = _transaction(
            each.outcome, each.epoch, each.marker_offset
        )
    verdict = found.verdict
    right = ", ".join(str(node) for node in verdict.right or ())
    evidence["right"] = f"{right} ({verdict.certainty})" if right else "cannot be known"
    evidence["because"] = verdict.because
    where = f"{found.partition} on {', '.join(str(node) for node in found.replicas)}"
    return Finding(found.code, found.severity, where, found.message, evidence, found.remedy)


def _transaction(outcome: str, epoch: int | None, marker: int | None) -> str:
    words = [outcome]
    if epoch is not None:
        words.append(f"epoch {epoch}")
    if marker is not None:
        words.append(f"marker at {marker}")
    return ", ".join(words)
