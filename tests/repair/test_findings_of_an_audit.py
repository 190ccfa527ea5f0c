"""A repair may go by an audit that was made before, if that has looked at everything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.cli.main import main
from sexton.testing.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2) as started:
        started.create_topic("orders", [[1, 2]], {"cleanup.policy": "compact"})
        yield started


@pytest.mark.parametrize(("limits", "exit_code"), [([], 0), (["--since", "1h"], 2)])
def test_an_audit_of_the_last_hour_does_not_say_which_replica_may_go(
    cluster: EmbeddedCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    limits: list[str],
    exit_code: int,
) -> None:
    """One that is wrong about this hour may be the only one that is right about the last year."""
    where = ["-b", cluster.bootstrap_servers, "--format", "json"]
    assert main(["audit", "orders", *where, "--engine", "local", *limits]) == 0
    report = tmp_path / "report.json"
    report.write_text(capsys.readouterr().out)
    state = str(tmp_path / "notes.json")
    code = main(["repair", "orders", *where, "--state", state, "--findings", str(report)])
    told = json.loads(capsys.readouterr().out)
    assert code == exit_code, told
    if limits:
        assert told["error"]["subject"] == "--findings" and "since 1h" in told["error"]["why"]
