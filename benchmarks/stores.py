"""State stores: a counting task beside others that count, and what keeping state safe costs.

500,000 records over 10,000 keys in one partition, counted exactly once (outputs, changelog and
input offsets in one transaction), from the start of the program to the last commit:

    ours           `sexton.stores`, RocksDB, 100 ms between commits
    quixstreams    from PyPI, in an environment of its own; RocksDB, exactly-once, 100 ms
    without state  librdkafka consumes and produces, no state, no transactions

Then a store of the size of `--size`: what a checkpoint in every write costs, how long a warm copy
takes from its assignment to the first record, and how fast a cold one is filled.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.contestants import OURS, Contestant, sexton_up
from benchmarks.measure import By, Measure, race, timed, timed_process
from benchmarks.registry import Setting
from benchmarks.result import AtMostSeconds, Result, TimesAsFast, Unit
from benchmarks.stores_inputs import fill
from benchmarks.stores_large import cold_and_warm
from sexton.testing.kafka_jars import cache_directory

RECORDS, KEYS = 500_000, 10_000
QUIX = "quixstreams"
PLAIN = "without state"
WRITES, WRITE_KEYS = 100, 1_000  # batches, and keys in each
WRITE_ROUNDS = 4  # for each round of the others: one is short
MOST_ROUNDS = 3
_HERE = Path(__file__).parent


def run(setting: Setting) -> Iterator[Result]:
    yield from _counting(setting)
    yield _checkpoints(setting)
    yield from _large(setting)


def _counting(setting: Setting) -> Iterator[Result]:
    with sexton_up(1) as kafka, tempfile.TemporaryDirectory() as home:
        kafka.create_topic("words", 1)
        fill(kafka.bootstrap, "words", RECORDS, KEYS, 20)
        rounds = iter(range(1_000))

        def program(python: Path | str, script: str) -> Measure:
            number = next(rounds)
            output = f"totals-{number}"
            kafka.create_topic(output, 1)
            command = [str(python), str(_HERE / script), kafka.bootstrap, output, str(RECORDS)]
            return timed_process([*command, f"{home}/{number}"], RECORDS)

        quix = _quix_python()
        contestants = {
            OURS: lambda: program(sys.executable, "stores_ours.py"),
            QUIX: lambda: program(quix, "stores_quix.py"),
            PLAIN: lambda: program(sys.executable, "stores_plain.py"),
        }
        best = race(contestants, By.WALL, min(setting.repeat, MOST_ROUNDS), most_s=60.0)
    case = f"counts {RECORDS:,} records over {KEYS:,} keys, exactly once"
    yield Result("stores", case, By.WALL, best[OURS], QUIX, best[QUIX], TimesAsFast(3))
    yield Result("stores", case, By.CPU, best[OURS], QUIX, best[QUIX])
    yield Result("stores", case, By.WALL, best[OURS], PLAIN, best[PLAIN])


def _quix_python() -> Path:
    """An environment with quixstreams in it; ours has other versions of what it needs."""
    home = cache_directory() / "quixstreams"
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        venv.create(home, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "-q", "quixstreams"]
        subprocess.run(install, check=True)
        (home / "ready").touch()
    return python


def _checkpoints(setting: Setting) -> Result:
    """The same batches to RocksDB, with a checkpoint in each and without."""
    from rocksdict import WriteBatch

    from sexton.machines.stores_events import Checkpoint, Lineage
    from sexton.stores.disks import RocksDisk
    from sexton.stores.layout import CHECKPOINT, encode_checkpoint

    keys = [b"\x01key_%d" % number for number in range(WRITE_KEYS)]
    lineage = Lineage("cluster", bytes(16))

    def with_checkpoint(disk: RocksDisk) -> int:
        for number in range(WRITES):
            changes: dict[bytes, bytes | None] = dict.fromkeys(keys, b"%020d" % number)
            changes[CHECKPOINT] = encode_checkpoint(Checkpoint(lineage, number, 0, number))
            disk.write(changes)
        return WRITES * WRITE_KEYS

    def without(disk: RocksDisk) -> int:
        for number in range(WRITES):
            changes = dict.fromkeys(keys, b"%020d" % number)
            batch = WriteBatch(raw_mode=True)
            for key, value in changes.items():
                batch.put(key, value)
            disk._db.write(batch)
        return WRITES * WRITE_KEYS

    def fresh(work: Callable[[RocksDisk], int]) -> Measure:
        """RocksDB's memtable slows down as it fills, so each round begins with an empty one."""
        with tempfile.TemporaryDirectory() as home:
            disk = RocksDisk(Path(home) / "store")
            try:
                return timed(lambda: work(disk))
            finally:
                disk.close()

    contestants = {OURS: lambda: fresh(with_checkpoint), "plain writes": lambda: fresh(without)}
    best = race(contestants, By.CPU, setting.repeat * WRITE_ROUNDS)
    case = f"a checkpoint in every write of {WRITE_KEYS:,} keys"
    plain = best["plain writes"]
    return Result("stores", case, By.CPU, best[OURS], "plain writes", plain, TimesAsFast(0.9))


def _large(setting: Setting) -> Iterator[Result]:
    with sexton_up(1) as kafka, tempfile.TemporaryDirectory() as home:
        cold, warm = cold_and_warm(_ready(kafka), Path(home), setting.size)
    size = f"{setting.size / 1e9:.2g} GB"
    yield Result("stores", f"cold restore of {size}", By.WALL, cold, unit=Unit.BYTES)
    yield Result(
        "stores", f"promotion of a warm copy of {size}", By.WALL, warm,
        goal=AtMostSeconds(1.0), unit=Unit.DURATION,
    )  # fmt: skip


def _ready(kafka: Contestant) -> str:
    kafka.create_topic("large", 1)
    return kafka.bootstrap
