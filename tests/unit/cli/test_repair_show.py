"""What people see of a plan when hundreds of keys are wrong in one way."""

from __future__ import annotations

import io
import json

import pytest
from typer import Exit

from sexton.base.partitions import TopicPartition
from sexton.cli.output import Output
from sexton.cli.repair_look import Looked
from sexton.cli.repair_request import Request
from sexton.cli.repair_show import DO_IT, show_plans, show_undone
from sexton.cli.writers import Format
from sexton.guard.repair_planning import Plan
from sexton.machines.repair import Job, Sight
from sexton.machines.repair_verdicts import Decision, Judged

AT = TopicPartition("orders", 0)
SIGHT = Sight(1, 5, (1, 2, 3), (1, 2, 3), False, frozenset({1, 2, 3}))


def judged(offset: int, certainty: str = "certain") -> Judged:
    return Judged(
        f"tombstone-divergence/{offset}", "tombstone-divergence", AT, (3,), (1, 2), certainty,
        f"replica 3 shows a deleted key, at offset {offset}", f"of offset {offset}",
    )  # fmt: skip


def told(settled: tuple[Judged, ...], form: Format) -> str:
    job = Job(AT, (1, 2, 3), (3,), (1, 2), 1)
    plan = Plan(Decision(AT, (3,), (1, 2), (), (), settled), SIGHT, job, None)
    stdout = io.StringIO()

    def tell() -> None:
        with Output("repair", form, stdout, io.StringIO()) as out:
            show_plans([plan], Request("orders", 0, {}), out)
            show_undone([plan], Looked(settled), out)

    with pytest.raises(Exit) as ended:
        tell()
    assert ended.value.exit_code == 1
    return stdout.getvalue()


def test_keys_that_are_wrong_in_one_way_are_one_row_for_people() -> None:
    settled = (*map(judged, range(90)), judged(90, "likely"))
    rows = [line for line in told(settled, Format.table).splitlines() if "  1,2  " in line]
    assert [line.split("1,2", 1)[1].split(None, 1) for line in rows] == [
        ["certain", "of offset 0; 89 more alike"],
        ["likely", "of offset 90"],
    ]
    assert told(settled, Format.table).count(DO_IT) < 10
    answer = json.loads(told(settled, Format.json))
    assert len(answer["verdicts"]) == len(answer["findings"]) == 91
