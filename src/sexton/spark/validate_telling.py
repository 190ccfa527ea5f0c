"""Has somebody been told of what a stream has found? At least once, whenever its driver dies.

    found ──▶ untold.json ──▶ the checkpoint is committed ──▶ on_finding ──▶ untold.json goes

A driver that is killed before the commit judges the same rows again, and finds the same. After it
nobody would: rows that were judged are passed over. So whoever goes on looks for untold.json, and
tells what the checkpoint has of it. Told twice is only what was told in the moment of the kill.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from sexton.audit.validation import Sighting
from sexton.survey.validating_state import Checkpoint

UNTOLD = "untold.json"
Tell = Callable[[list[Sighting]], None]


class Telling:
    def __init__(self, place: Path, checkpoint: Checkpoint, tell: Tell | None) -> None:
        self._path = place / UNTOLD
        self._checkpoint = checkpoint
        self._tell = tell

    def will_be_kept(self, found: Sequence[Sighting]) -> None:
        """Before the commit."""
        if not found or self._tell is None:
            return
        draft = self._path.with_name(f"{UNTOLD}.new")
        with draft.open("w", encoding="utf-8") as file:
            json.dump([each.to_json() for each in found], file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)

    def tell(self) -> None:
        """After the commit, and before a batch in case that a driver was killed there."""
        if self._tell is None or not self._path.exists():
            return
        noted = json.loads(self._path.read_text(encoding="utf-8"))
        kept = [each for each in map(Sighting.from_json, noted) if self._is_kept(each)]
        if kept:
            self._tell(kept)
        self._path.unlink()

    def _is_kept(self, sighting: Sighting) -> bool:
        partition = self._checkpoint.kept.get(sighting.partition)
        return partition is not None and sighting.offset < partition.next
