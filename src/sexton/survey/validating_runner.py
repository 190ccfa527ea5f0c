"""A validation's tasks side by side, in this process; `spark/` has a runner for many machines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sexton.survey.runner import side_by_side
from sexton.survey.validating_tasks import Task, carry_out


@dataclass(frozen=True, slots=True)
class LocalTasks:
    slots: int = field(default_factory=lambda: os.cpu_count() or 1)

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        return side_by_side(tasks, carry_out, self.slots)
