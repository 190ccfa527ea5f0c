"""An instance's numbers in Prometheus's text format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sexton.report.prometheus import Labels, sample_line
from sexton.stores.numbers import Numbers, percentile
from sexton.stores.status import TaskStatus
from sexton.stores.task import AppConfig

_Samples = Iterable[tuple[Labels, float]]


def metrics_text(
    config: AppConfig, numbers: Numbers, tasks: Sequence[TaskStatus], generation: int
) -> str:
    return "".join(f"{line}\n" for line in _lines(config, numbers, tasks, generation))


def _lines(
    config: AppConfig, numbers: Numbers, tasks: Sequence[TaskStatus], generation: int
) -> Iterator[str]:
    who: Labels = (("application", config.application_id), ("instance", config.instance))
    for name, kind, words, value in _whole(numbers, generation):
        yield from _family(name, kind, words, [(who, value)])
    for name, words, state in _LAGS:
        some = [(_of(who, each), each.lag) for each in tasks if each.state == state]
        yield from _family(name, "gauge", words, some)
    positions = [(_of(who, each), each.position) for each in tasks]
    words = "Position of a local store in its changelog"
    yield from _family("changelog_position", "gauge", words, positions)


_LAGS = (
    ("restore_lag_records", "Changelog records to be read before a task may run", "restoring"),
    ("standby_lag_records", "Changelog records that a warm copy is behind", "standby"),
    ("input_lag_records", "Input records that a running task is behind", "running"),
)


def _whole(numbers: Numbers, generation: int) -> Iterator[tuple[str, str, str, float]]:
    took, promoted = numbers.commit_seconds, numbers.promotion_seconds
    yield "processed_records_total", "counter", "Calls of process()", numbers.processed
    yield "commits_total", "counter", "Transactions that Kafka confirmed", numbers.commits
    yield "commit_seconds_sum", "counter", "Time of all commits", numbers.commit_seconds_sum
    yield "commit_seconds_p50", "gauge", "Median of the last commits", percentile(took, 0.5)
    words = "99th percentile of the last commits"
    yield "commit_seconds_p99", "gauge", words, percentile(took, 0.99)
    yield "promotions_total", "counter", "Tasks that became active here", numbers.promotions
    words = "Longest of the last promotions"
    yield "promotion_seconds_max", "gauge", words, percentile(promoted, 1.0)
    words = "Tasks that could not be restored in full, and so did not run"
    yield "refused_promotions_total", "counter", words, numbers.refused_promotions
    yield "wiped_stores_total", "counter", "Local stores thrown away and rebuilt", numbers.wiped
    words = "Changelog records that promotions had to read"
    yield "restored_records_total", "counter", words, numbers.restored_records
    words = "Bytes of changelogs that promotions had to read"
    yield "restored_bytes_total", "counter", words, numbers.restored_bytes
    yield "generation", "gauge", "Generation of the consumer group", generation


def _of(who: Labels, task: TaskStatus) -> Labels:
    return (*who, ("task", task.task), ("partition", task.partition))


def _family(name: str, kind: str, words: str, samples: _Samples) -> Iterator[str]:
    whole = f"sexton_stores_{name}"
    yield f"# HELP {whole} {words}"
    yield f"# TYPE {whole} {kind}"
    for labels, value in samples:
        yield sample_line(whole, labels, value)
