"""Local state that is not what it says: found, thrown away loudly, rebuilt; or the task stops.

Trust in a copy and the age of a copy have their control: with the protection off it goes wrong.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sexton.machines.stores_events import Bounds, Checkpoint, Lineage
from sexton.stores import TaskFailed
from sexton.stores import changelog as changelogs
from sexton.stores.disks import RocksDisk
from sexton.stores.layout import (
    CHECKPOINT,
    decode_checkpoint,
    encode_checkpoint,
    encode_position,
)
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.stores.counting import app
from tests.stores.harness import (
    CHANGELOG,
    committed,
    count_to,
    make_topics,
    regressions,
    state,
    sums,
    wait_until_active,
    wait_until_done,
    write,
)

HOUR_MS = 3_600_000


def stale_promotion(servers: str, tmp_path: Path, trust: bool) -> list[tuple[str, int]]:
    """A counts to 104, B takes a copy; A goes on to 110; B alone is promoted, and counts on."""
    count_to(servers, tmp_path / "a", 0, 104)
    with app(servers, tmp_path / "b") as copying:
        wait_until_active(copying, 1)
        assert state(copying, 0) == {"key_17": 104}
    count_to(servers, tmp_path / "a", 104, 6)
    write(servers, [(0, "key_17")])
    with app(servers, tmp_path / "b", trust_local_checkpoint=trust) as promoted:
        until(lambda: len(sums(servers, 0)) > 110, "it has counted on")
        del promoted
    return sums(servers, 0)


def test_a_promoted_copy_reads_on_before_it_counts(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    make_topics(kafka, 1)
    found = stale_promotion(kafka.bootstrap_servers, tmp_path, trust=False)
    assert found[-1] == ("key_17", 111)
    assert regressions(found) == []


def test_a_copy_that_trusts_itself_counts_from_110_to_105(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    make_topics(kafka, 1)
    found = stale_promotion(kafka.bootstrap_servers, tmp_path, trust=True)
    assert regressions(found) == ["Key: key_17, LastValue: 110, NewValue: 105"]


# ── a tombstone that is gone ──


def old_copy(directory: Path, age_ms: int) -> None:
    """The copy in this directory was complete longer ago than it says."""
    disk = RocksDisk(directory / "counter" / "counts-0")
    found = decode_checkpoint(disk.get(CHECKPOINT))
    assert found is not None
    aged = replace(found, caught_up_ms=found.caught_up_ms - age_ms)
    disk.write({CHECKPOINT: encode_checkpoint(aged)})
    disk.close()


def deleted_meanwhile(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    """B's copy has `gone`; A deletes it, and the changelog forgets the tombstone."""
    servers = kafka.bootstrap_servers
    options = {"cleanup.policy": "compact", "delete.retention.ms": "60000"}
    kafka.create_topic(CHANGELOG, 1, configs=options)
    write(servers, [(0, "gone"), (0, "kept")])
    with app(servers, tmp_path / "b") as copying:
        wait_until_done(copying, 2)
    write(servers, [(0, "gone", b"forget"), (0, "kept")])
    with app(servers, tmp_path / "a") as first:
        wait_until_done(first, 4)
    kafka.clean(force=True)  # a tombstone stays for its time from the first pass on
    kafka.let_time_pass(HOUR_MS)
    kafka.clean(force=True)
    assert "\x01gone" not in dict(committed(servers, CHANGELOG, 0))


def test_a_copy_from_before_a_forgotten_tombstone_is_rebuilt(
    kafka: EmbeddedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_topics(kafka, 1)
    deleted_meanwhile(kafka, tmp_path)
    old_copy(tmp_path / "b", HOUR_MS)
    with app(kafka.bootstrap_servers, tmp_path / "b") as back:
        wait_until_active(back, 1)
        assert "gone" not in state(back, 0)
    assert "local state is thrown away" in caplog.text


def test_without_that_rule_the_deleted_key_lives(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    """The control: its clock says that it was away for a moment only."""
    make_topics(kafka, 1)
    deleted_meanwhile(kafka, tmp_path)
    with app(kafka.bootstrap_servers, tmp_path / "b") as back:
        wait_until_active(back, 1)
        assert state(back, 0)["gone"] == 1


def test_an_old_copy_is_kept_where_no_tombstone_can_be_gone(
    kafka: EmbeddedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Our brokers say up to where tombstones may go (MTRO): nothing was cleaned yet."""
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    count_to(servers, tmp_path / "b", 0, 3)
    count_to(servers, tmp_path / "a", 3, 2)
    old_copy(tmp_path / "b", 48 * HOUR_MS)
    with app(servers, tmp_path / "b") as back:
        wait_until_active(back, 1)
        assert state(back, 0) == {"key_17": 5}
    assert "thrown away" not in caplog.text


@pytest.fixture
def stock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Kafka that says nothing of its tombstones."""
    right = changelogs._bounds

    async def bounds(*given: Any) -> Bounds:
        return replace(await right(*given), mtro=None)

    async def mtro(*_: Any) -> None:
        return None

    monkeypatch.setattr(changelogs, "_bounds", bounds)
    monkeypatch.setattr(changelogs, "mtro", mtro)


@pytest.mark.usefixtures("stock")
@pytest.mark.parametrize("counts_on", [False, True])
def test_an_application_that_stood_still_for_long_has_its_stores(
    kafka: EmbeddedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture, counts_on: bool
) -> None:
    """A marker follows each commit, and is not in the store. Nothing else was written."""
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    count_to(servers, tmp_path / "a", 0, 3)
    if counts_on:  # the control: another instance was busy meanwhile
        count_to(servers, tmp_path / "b", 3, 1)
    old_copy(tmp_path / "a", 48 * HOUR_MS)
    count_to(servers, tmp_path / "a", 4 if counts_on else 3, 2)
    assert sums(servers, 0)[-1] == ("key_17", 6 if counts_on else 5)
    assert ("thrown away" in caplog.text) is counts_on


def test_an_owner_without_work_says_now_and_then_that_it_is_complete(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    options = {"cleanup.policy": "compact", "delete.retention.ms": "2000"}
    kafka.create_topic(CHANGELOG, 1, configs=options)
    write(servers, [(0, "a")])
    with app(servers, tmp_path / "a") as quiet:
        wait_until_done(quiet, 1)
        [before] = quiet.status()
        until(lambda: quiet.status()[0].position > before.position, "it commits once more")
        assert quiet.status()[0].input_position == 1


# ── state of something else ──


def test_state_of_another_cluster_is_thrown_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with EmbeddedCluster(1) as one:
        make_topics(one, 1)
        count_to(one.bootstrap_servers, tmp_path / "a", 0, 5)
    with EmbeddedCluster(1) as other:
        make_topics(other, 1)
        count_to(other.bootstrap_servers, tmp_path / "a", 0, 2)
        assert sums(other.bootstrap_servers, 0) == [("key_17", 1), ("key_17", 2)]
    assert "thrown away" in caplog.text


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ({CHECKPOINT: b"{}"}, "cannot be read"),
        ({CHECKPOINT: None}, "no checkpoint"),
        (
            {CHECKPOINT: encode_checkpoint(Checkpoint(Lineage("?", b"?"), 1, 0, 0))},
            "is of the cluster ?",
        ),
        ({b"\x00position": b"short"}, "has 5 bytes"),
    ],
    ids=["unreadable", "missing", "foreign", "position"],
)
def test_damaged_state_is_thrown_away(
    kafka: EmbeddedCluster,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    damage: dict[bytes, bytes | None],
    why: str,
) -> None:
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    count_to(servers, tmp_path / "a", 0, 5)
    disk = RocksDisk(tmp_path / "a" / "counter" / "counts-0")
    disk.write(damage)
    disk.write({b"\x01key_17": encode_position(1 << 40)})
    disk.close()
    count_to(servers, tmp_path / "a", 5, 1)
    assert sums(servers, 0)[-1] == ("key_17", 6)
    told = [r for r in caplog.records if "local state is thrown away" in r.message]
    assert len(told) == 1
    assert why in told[0].__dict__["why"]
    assert told[0].levelno == logging.ERROR


def test_a_store_that_cannot_be_opened_is_rebuilt(
    kafka: EmbeddedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    count_to(servers, tmp_path / "a", 0, 5)
    path = tmp_path / "a" / "counter" / "counts-0"
    for manifest in path.glob("MANIFEST-*"):
        manifest.write_bytes(b"nonsense")
    count_to(servers, tmp_path / "a", 5, 1)
    assert sums(servers, 0)[-1] == ("key_17", 6)
    assert "thrown away" in caplog.text


def test_a_changelog_that_lost_records_stops_the_task(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    """The group's offset says that inputs were processed; nothing says what they came to."""
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    count_to(servers, tmp_path / "a", 0, 5)
    kafka.delete_topic(CHANGELOG)
    with (
        pytest.raises(TaskFailed, match="it has lost records"),
        app(servers, tmp_path / "b") as one,
    ):
        until(lambda: bool(one.failures()), "the task stops")
    assert len(sums(servers, 0)) == 5
