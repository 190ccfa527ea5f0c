"""What happens to a topic between the plan of a validation and its tasks is said, not missed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka.admin import AdminClient

from sexton.audit.validation import Rules
from sexton.survey.validating import Validation, validate
from sexton.survey.validating_plan import Asked
from sexton.survey.validating_runner import LocalTasks
from sexton.survey.validating_table import PartitionSideTask, validate_table
from sexton.survey.validating_tasks import CandidateTask, OrderTask, Task, ValidateTask
from sexton.testing.embedded import EmbeddedCluster
from tests.validate.topics import Record, add, filled, transactional

Meanwhile = Callable[[Sequence[Task]], None]


class Interrupted:
    """Something happens before the tasks of each round are run."""

    slots = 2

    def __init__(self, meanwhile: Meanwhile) -> None:
        self._meanwhile = meanwhile

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        self._meanwhile(tasks)
        return LocalTasks(2).run(tasks)


def deleting(cluster: EmbeddedCluster, topic: str, before: dict[type[Any], int]) -> Interrupted:
    """All below an offset of partition 0 goes before tasks of a kind are run."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def meanwhile(tasks: Sequence[Task]) -> None:
        for kind, offset in before.items():
            if any(isinstance(task, kind) for task in tasks):
                at = confluent_kafka.TopicPartition(topic, 0, offset)
                admin.delete_records([at])[at].result(60)

    return Interrupted(meanwhile)


def begins(topic: str, offset: int) -> str:
    return (
        f"{topic}-0 was read from offset {offset}: what was before it has been deleted meanwhile."
    )


def told(found: Validation) -> tuple[dict[str, int], tuple[str, ...]]:
    assert found.unread == ()
    return dict(found.counts), found.limits


# ── retention ──

IDS: list[Record] = [(f"k{number % 4}", {"id": number}) for number in range(40)]


def test_ids_are_looked_for_in_what_retention_has_left(broker: EmbeddedCluster) -> None:
    """Of the first round it is deleted up to 3, of the second to 5; id 38 is in both partitions."""
    records: list[Record] = [*IDS, ("k1", {"id": 38})]
    topic = filled(broker, records, partitions=2, partition=lambda n: 1 if n == 40 else n % 2)
    asked = Asked(broker.bootstrap_servers, topic, Rules(id="json:id"))
    found = validate(asked, deleting(broker, topic, {ValidateTask: 3, CandidateTask: 5}))
    assert told(found) == ({"duplicate-record": 1}, (begins(topic, 5),))
    assert [each.start for each in found.partitions] == [3, 0]


def test_an_order_is_compared_in_what_retention_has_left(broker: EmbeddedCluster) -> None:
    """Of the output, and of its source: the ids that are gone there are counted."""
    source, topic = filled(broker, IDS), filled(broker, IDS)
    asked = Asked(broker.bootstrap_servers, topic, Rules(id="json:id", source=source))
    assert told(validate(asked, deleting(broker, topic, {OrderTask: 5}))) == (
        {},
        (begins(topic, 5),),
    )
    counts, limits = told(validate(asked, deleting(broker, source, {OrderTask: 7})))
    assert not counts and limits[1:] == (begins(source, 7),)
    assert limits[0].startswith("2 records have an id that")  # 5 and 6


def test_a_table_is_compared_with_what_retention_has_left(
    broker: EmbeddedCluster, tmp_path: Path
) -> None:
    """Every key comes again in the end: the table is the topic still."""
    records: list[Record] = [(f"k{number % 4}", str(number)) for number in range(40)]
    topic = filled(broker, records)
    pq.write_table(pa.table({"key": [f"k{n}" for n in range(4)]}), tmp_path / "t.parquet")
    asked = Asked(broker.bootstrap_servers, topic, Rules())
    runner = deleting(broker, topic, {PartitionSideTask: 6})
    found = validate_table(asked, runner, tmp_path / "t.parquet", "key", None)
    assert told(found) == ({}, (begins(topic, 6),))
    assert [each.start for each in found.partitions] == [6]


# ── transactions ──


def test_what_is_committed_meanwhile_is_judged_once(broker: EmbeddedCluster) -> None:
    """The last stable offset moves, and a read up to the old one is given more than that."""
    topic = filled(broker, [("a", "1")])
    producer = transactional(broker, f"{topic}-writer")
    producer.begin_transaction()
    add(producer, topic, [("b", "1"), ("c", "1")])
    producer.flush(60)
    rules = Rules(id="key", committed=False, compare_isolation=True)
    asked = Asked(broker.bootstrap_servers, topic, rules)
    runner = Interrupted(lambda _tasks: producer.commit_transaction(60))
    found = validate(asked, runner)
    assert found.counts == {"uncommitted-record": 2}  # as it was when it was planned
    assert [each.records for each in found.partitions] == [3]
