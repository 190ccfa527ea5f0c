"""Bad lines, kills, pauses and rebalances in sequence: `sexton validate` finds nothing wrong.

Nor does an offset of the group ever go back, or a local store differ from its changelog.

The same with trust in local checkpoints is the control: there it does. When this was written that
took two rounds, 77 seconds after the first start, on two busy cores; ten minutes are the limit.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sexton.testing.waiting import TimedOut
from tests.stores.chaos import Chaos, ClusterBehindLines, validate
from tests.stores.harness import make_topics, regressions, sums
from tests.stores.lines import EmbeddedBehindLines, KafkaBehindLines, Lines

PARTITIONS = 20  # as in the report
WITHIN_S = 600.0


def lines_to(kafka: ClusterBehindLines) -> Lines:
    return Lines(kafka.port_of(node) for node in kafka.node_ids)


def run(kafka: ClusterBehindLines, lines: Lines, home: Path, rounds: int, seed: int) -> None:
    make_topics(kafka, PARTITIONS)
    chaos = Chaos(kafka, lines, PARTITIONS, home, seed)
    try:
        chaos.start()
        for _ in range(rounds):
            chaos.round()
        chaos.finish()
        found = [sums(chaos.servers, partition) for partition in range(PARTITIONS)]
        assert [wrong for each in found for wrong in regressions(each)] == [], chaos.done
        assert sum(map(len, found)) == chaos.written
        assert validate(chaos.servers) == (0, []), chaos.done
        assert chaos.went_back == [], chaos.done
        assert chaos.looks > 10
        assert chaos.differences() == [], chaos.done
        assert lines.broken > 0
    finally:
        chaos.close()


def test_a_little_chaos(tmp_path: Path) -> None:
    with EmbeddedBehindLines() as kafka, lines_to(kafka) as lines:
        run(kafka, lines, tmp_path, rounds=2, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_much_chaos(tmp_path: Path, seed: int) -> None:
    with EmbeddedBehindLines() as kafka, lines_to(kafka) as lines:
        run(kafka, lines, tmp_path, rounds=25, seed=seed)


@pytest.mark.soak
@pytest.mark.kafka
def test_much_chaos_on_apache_kafka(tmp_path: Path) -> None:
    kafka = KafkaBehindLines()
    with lines_to(kafka) as lines, kafka:
        run(kafka, lines, tmp_path, rounds=15, seed=1)


@pytest.mark.soak
def test_validate_finds_what_trust_in_local_checkpoints_does(tmp_path: Path) -> None:
    with EmbeddedBehindLines() as kafka, lines_to(kafka) as lines:
        make_topics(kafka, PARTITIONS)
        chaos = Chaos(kafka, lines, PARTITIONS, tmp_path, 1, trust_local_checkpoint=True)
        began_s = time.monotonic()
        try:
            chaos.start()
            while time.monotonic() - began_s < WITHIN_S:
                if went_wrong(chaos):
                    print(f"after {time.monotonic() - began_s:.0f} s:", *chaos.done, sep="\n  ")
                    return
            pytest.fail("nothing went wrong")
        finally:
            chaos.close()


def went_wrong(chaos: Chaos) -> bool:
    try:
        chaos.round()
    except (TimedOut, AssertionError):
        pass  # an instance that trusts what it should not may also stop with an error
    chaos.lines.mend()
    code, found = validate(chaos.servers)
    codes = {each["code"] for each in found}
    return code == 1 and bool(codes & {"state-regression", "sequence-gap"})
