"""Findings that somebody has looked at and accepts, so that a scheduled audit can be clean again.

A baseline is a JSON file that people edit and keep under version control:

    {"acknowledged": [
        {"identity": "tombstone-divergence/orders-3/key-5f0c…", "why": "ticket 1234"}
    ]}

An identity says what is wrong, where, and with which key or transaction; it does not change from
run to run. The same key going wrong in another way is another finding.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from sexton.base.errors import ConfigError


class Identified(Protocol):
    """A finding that is the same in every run."""

    @property
    def identity(self) -> str: ...


F = TypeVar("F", bound=Identified)


@dataclass(frozen=True, slots=True)
class Baseline:
    acknowledged: frozenset[str] = frozenset()
    reasons: Mapping[str, str] = field(default_factory=dict)  # by identity, what people wrote

    def splits(self, findings: Iterable[F]) -> tuple[tuple[F, ...], tuple[F, ...]]:
        """(those that are new, those that are acknowledged)"""
        new: list[F] = []
        known: list[F] = []
        for finding in findings:
            (known if finding.identity in self.acknowledged else new).append(finding)
        return tuple(new), tuple(known)


NOTHING = Baseline()


def load_baseline(path: Path) -> Baseline:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        reasons = {
            str(each["identity"]): str(each.get("why") or "") for each in told["acknowledged"]
        }
        return Baseline(frozenset(reasons), reasons)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        hint = "write one with --write-baseline"
        raise ConfigError(str(path), f"cannot be read: {why}", hint) from error
    except (ValueError, KeyError, TypeError, AttributeError):
        hint = '{"acknowledged": [{"identity": "...", "why": "..."}]}'
        raise ConfigError(str(path), "is not a baseline of findings", hint) from None


def baseline_before(path: Path) -> Baseline:
    """What is about to be written over; ConfigError if it is something else."""
    is_there = path.is_file() and path.stat().st_size
    return load_baseline(path) if is_there else Baseline()


def write_baseline(path: Path, findings: Iterable[Identified], known: Baseline = NOTHING) -> None:
    """Acknowledges all of these; a person may shorten the list and say why.

    What people said before stays, in this file or in one that is `known`.
    """
    identities = sorted({finding.identity for finding in findings})
    before = baseline_before(path).reasons
    told = {
        "acknowledged": [
            {"identity": each, "why": known.reasons.get(each) or before.get(each, "")}
            for each in identities
        ]
    }
    path.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
