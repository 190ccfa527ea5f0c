"""Topics that change under a running application end it: state cannot go where keys have gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from sexton.base.errors import ConfigError
from sexton.stores import App, instance
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.stores.counting import INPUT, app
from tests.stores.harness import CHANGELOG, make_topics, wait_until_done, write


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance, "_TOLD_S", 0.1)


def counts(kafka: EmbeddedCluster, tmp_path: Path) -> App:
    """One that runs, and has counted something."""
    make_topics(kafka, 2)
    write(kafka.bootstrap_servers, [(0, "a"), (1, "b")])
    one = app(kafka.bootstrap_servers, tmp_path / "a")
    one.start()
    wait_until_done(one, 2)
    return one


def ends(one: App, why: str) -> None:
    assert one._ended is not None
    until(one._ended.done, "it ends")
    with pytest.raises(ConfigError, match=why):
        one.close()


def test_an_input_that_grows_ends_the_application(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    one = counts(kafka, tmp_path)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_partitions([NewPartitions(INPUT, 3)])[INPUT].result(30)
    ends(one, f"{INPUT}: had 2 partitions and has 3")


def test_so_does_another_changelog_with_the_same_name(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    one = counts(kafka, tmp_path)
    kafka.delete_topic(CHANGELOG)
    kafka.create_topic(CHANGELOG, 2, {"cleanup.policy": "compact"})
    ends(one, f"{CHANGELOG}: was deleted and made again")
