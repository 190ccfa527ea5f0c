"""Does a repair heal every divergence that the lab can make?

Each is made on a cluster that cleans as Apache Kafka does, repaired by the command as a user runs
it at the moment of damage, and audited. Then every broker leads in turn, and an ordinary consumer
must see the same and right thing from each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.cli.main import main
from sexton.lab.divergences import EMBEDDED_OPTIONS, SCENARIOS, late_epoch
from sexton.lab.looking import Consumed, consumed
from sexton.testing.embedded import EmbeddedCluster
from tests.repair.stages import Enough

# What the key `k` is in truth: deleted, aborted, overwritten, or never committed.
TRUTH = {
    "tombstone-divergence": None,
    "aborted-as-committed": None,
    "committed-as-aborted": "2",
    "stuck-partition": "2",
    "slow-reassignment": None,
    "stale-disk": None,
    "late-epoch": None,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    options = {**EMBEDDED_OPTIONS, **late_epoch.broker_options}
    with EmbeddedCluster(compaction="independent", options=options, frozen_clock=True) as started:
        yield started


def seen_from_each(cluster: EmbeddedCluster, topic: str) -> dict[int, Consumed]:
    seen = {}
    for node in (1, 2, 3):
        cluster.elect(topic, 0, node)
        seen[node] = consumed(cluster.bootstrap_servers, topic)
    return seen


@pytest.mark.parametrize("name", TRUTH)
def test_what_the_lab_breaks_is_repaired(
    cluster: EmbeddedCluster, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def look(topic: str) -> None:
        where = ("-b", cluster.bootstrap_servers)
        before = cluster.partition(topic)
        state = tmp_path / "notes.json"
        arguments = ["repair", topic, *where, "--state", str(state), "--format", "json"]
        assert main([*arguments, "--dry-run"]) == 1
        planned = json.loads(capsys.readouterr().out)
        assert planned["summary"]["to_rebuild"] == 1  # so it has diverged
        assert cluster.partition(topic) == before  # nothing was done yet

        copies = tmp_path / "wrong"
        assert main([*arguments, "--yes", "--keep-copy", str(copies)]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["summary"]["rebuilt"] == 1 and told["summary"]["findings_left"] == 0
        assert not state.exists()
        (copy,) = copies.glob(f"broker-3/{topic}-0/*.log")
        assert main(["log", "verify", str(copy.parent), "--cleanup-policy", "compact"]) == 0

        assert main(["audit", *where, "-t", topic, "--engine", "local"]) == 0
        capsys.readouterr()
        seen = seen_from_each(cluster, topic)
        assert {each.latest.get("k") for each in seen.values()} == {TRUTH[name]}
        assert seen[1].latest == seen[2].latest == seen[3].latest
        assert seen[1].position == seen[2].position == seen[3].position
        raise Enough

    with pytest.raises(Enough):
        SCENARIOS[name](cluster, look)
