"""What an audit has read so far, kept so that an interrupted one can go on.

    {"sexton": "audit journal", "version": 1, "wanted": "...", "seed": ..., "plan": [...]}
    {"facts": {...}}          one line for each replica that was read to its end

Replicas that are in the journal are not read again. Comparing them later with others is sound: the
offsets up to which they are compared are in the journal too, and whatever differs is looked at
again on all replicas before anything is said.

What was read of a topic that was deleted since says nothing of one that has its name now, nor
what was read of another cluster at the same address: it is read anew.

A line that was cut off by a crash is dropped. A journal of another audit is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sexton import __version__
from sexton.audit.facts import ReplicaFacts, Scope
from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.survey.plan import Group, Wanted

KIND, VERSION = "audit journal", 1
# Partition, broker, start, end and kind of the scope.
Place = tuple[TopicPartition, int, int, int, bool]


class Journal:
    """Of one audit, in one file; created when it is planned."""

    def __init__(self, path: Path, wanted: Wanted) -> None:
        self._path = path
        self._wanted = _digest(wanted)
        self.seed: int | None = None
        self.groups: dict[TopicPartition, tuple[Group, ...]] = {}
        self.facts: dict[Place, ReplicaFacts] = {}
        self._ids: dict[str, str] = {}  # of the topics that were planned
        if path.exists():
            self._load()

    def begin(
        self,
        seed: int,
        groups: dict[TopicPartition, tuple[Group, ...]],
        ids: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Writes the first line, unless this audit goes on with an earlier one.

        `ids` tell of each topic which one it is. What was read of another of its name is forgotten.
        """
        if self.seed is not None:
            others = {topic for topic, told in ids.items() if self._ids.get(topic, "") != told}
            self.groups = {at: each for at, each in self.groups.items() if at.topic not in others}
            self.facts = {at: each for at, each in self.facts.items() if at[0].topic not in others}
            return
        self.seed, self.groups = seed, groups
        head = {
            "sexton": KIND,
            "version": VERSION,
            "by": __version__,
            "wanted": self._wanted,
            "seed": seed,
            "ids": dict(ids),
            "groups": [
                {"scope": group.scope.to_json(), "nodes": list(group.nodes)}
                for each in groups.values()
                for group in each
            ],
        }
        self._path.write_text(json.dumps(head) + "\n", encoding="utf-8")

    def note(self, facts: ReplicaFacts) -> None:
        self.facts[_place(facts.scope, facts.node)] = facts
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"facts": facts.to_json()}) + "\n")

    def known(self, scope: Scope, node: int) -> ReplicaFacts | None:
        return self.facts.get(_place(scope, node))

    def done(self) -> None:
        """The audit has come to its end: the next one begins anew."""
        self._path.unlink(missing_ok=True)

    def _load(self) -> None:
        whole, newline, cut = self._path.read_bytes().rpartition(b"\n")
        lines = (whole if newline else cut).decode(errors="replace").splitlines()
        head = _parsed(lines[0]) if lines else None
        if head is None or head.get("sexton") != KIND or head.get("version") != VERSION:
            raise ConfigError(str(self._path), "is not the journal of an audit", "name another")
        if head["wanted"] != self._wanted:
            hint = "repeat that audit, or delete the file to begin anew"
            raise ConfigError(str(self._path), "is the journal of an audit of other things", hint)
        self.seed, self._ids = int(head["seed"]), head.get("ids", {})
        for each in head["groups"]:
            scope = Scope.from_json(each["scope"])
            group = Group(scope, tuple(each["nodes"]))
            self.groups[scope.partition] = (*self.groups.get(scope.partition, ()), group)
        for line in lines[1:]:
            told = _parsed(line)
            if told is not None:
                facts = ReplicaFacts.from_json(told["facts"])
                self.facts[_place(facts.scope, facts.node)] = facts
        if cut:  # what is added goes on a line of its own
            self._path.write_bytes(whole + newline)


def _place(scope: Scope, node: int) -> Place:
    return scope.partition, node, scope.start, scope.end, scope.compacted


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _digest(wanted: Wanted) -> str:
    """Of what decides which bytes are read; passwords are no part of it."""
    told = (
        wanted.bootstrap_servers,
        wanted.topics,
        wanted.all_compacted,
        wanted.internal,
        wanted.sample_partitions,
        *((wanted.since_told,) if wanted.since_told else ()),
        *wanted.partitions,
    )
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]
