"""Which copies of data directories are compared? Those of the same name are replicas of one log."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from sexton.base.errors import ConfigError, SextonError
from sexton.base.partitions import TopicPartition
from sexton.client.replica import ReplicaOffsets
from sexton.log.inspect.paths import find
from sexton.survey.places import FilesPlace, open_place
from sexton.survey.plan import PartitionPlan, Plan, grouped, is_meant


async def plan_files(
    paths: Sequence[Path],
    *,
    compacted: bool = True,
    topics: Sequence[str] = (),
    partitions: Sequence[TopicPartition] = (),
) -> Plan:
    """Copies are numbered in the order of `paths`, from 1."""
    if len(paths) < 2:
        raise ConfigError("--path", "one copy has nothing to agree with", "name two or more")
    same = [str(path) for path in paths if [p.resolve() for p in paths].count(path.resolve()) > 1]
    if same:
        raise ConfigError("--path", f"{same[0]} is named twice", "a copy agrees with itself")
    found: dict[TopicPartition, dict[int, FilesPlace]] = {}
    for number, path in enumerate(paths, 1):
        listed = find([path])
        for error in listed.wrong:
            raise error
        for files in listed.partitions:
            partition = TopicPartition.from_directory(files.name)
            if (not topics or partition.topic in topics) and is_meant(partition, partitions):
                place = FilesPlace(str(files.directory), number)
                other = found.setdefault(partition, {}).setdefault(number, place)
                if other != place:
                    why = f"holds {partition} twice, in {other} and {place}"
                    hint = "name the directories of single brokers"
                    raise ConfigError(str(path), why, hint)
    seed = random.SystemRandom().getrandbits(63)
    plans = []
    for partition, places in sorted(found.items()):
        plans.append(await _plan(partition, places, len(paths), compacted, seed))
    if not plans:
        raise ConfigError(", ".join(map(str, paths)), "hold no partition that is asked for")
    return Plan(None, tuple(plans), 0, seed)


async def _plan(
    partition: TopicPartition,
    places: dict[int, FilesPlace],
    copies: int,
    compacted: bool,
    seed: int,
) -> PartitionPlan:
    stands: dict[int, ReplicaOffsets] = {}
    unreadable = [
        (number, "this copy does not have the partition")
        for number in range(1, copies + 1)
        if number not in places
    ]
    for number, place in places.items():
        try:
            async with open_place(place, partition) as reader:
                stands[number] = await reader.offsets()
        except SextonError as error:
            unreadable.append((number, f"{error.subject}: {error.why}"))
    isr = tuple(stands)
    groups = grouped(partition, compacted, _current(stands), stands, start=0, seed=seed)
    return PartitionPlan(
        partition, compacted, 0, -1, isr, places, stands, groups, tuple(unreadable)
    )


def _current(stands: Mapping[int, ReplicaOffsets]) -> list[int]:
    """Those that no open transaction keeps below where others are.

    Copies are made one after the other, and nobody can look again whether it has ended since: one
    whose transaction never does would keep all others from being compared any further.
    """
    furthest = max((each.last_stable for each in stands.values()), default=0)
    return [
        node
        for node, each in stands.items()
        if each.last_stable >= min(furthest, each.high_watermark)
    ]
