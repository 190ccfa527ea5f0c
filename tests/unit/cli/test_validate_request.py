"""What `sexton validate` makes of its options before it asks anybody."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer import Context
from typer.core import TyperCommand

from sexton.base.errors import ConfigError
from sexton.cli import validate
from sexton.cli.engines import Engine
from sexton.cli.validate_options import IsolationLevel
from sexton.cli.validate_request import Request
from sexton.cli.writers import Format


def asked(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Request:
    """What the command would run."""
    told: list[Request] = []
    monkeypatch.setattr(
        "sexton.cli.validate_run.run_validate", lambda request, _: told.append(request)
    )
    context = Context(TyperCommand("validate"))
    options = {"value": "int", **options}
    validate.command(context, "counts:3", "kafka:9092", **options, format=Format.json)
    (request,) = told
    return request


def test_every_option_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    request = asked(
        monkeypatch, rising=True, id="json:id", source="orders", max_mb_per_s=2.5, since="2d",
        settings=["client.id=me"], isolation_level=IsolationLevel.read_uncommitted,
        most_keys=5000, show_keys=True, engine=Engine.local,
    )  # fmt: skip
    assert (request.topic, request.partitions) == ("counts", (3,))
    assert request.settings == {"bootstrap.servers": "kafka:9092", "client.id": "me"}
    rules = request.rules
    assert (rules.value, rules.rising, rules.id, rules.source) == (
        "int",
        "rising",
        "json:id",
        "orders",
    )
    assert not rules.committed and rules.key == "key"
    assert (request.max_bytes_per_s, request.since, request.most_keys) == (2_500_000, "2d", 5000)
    assert request.show_keys and request.engine == "local"


def test_a_master_that_is_named_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """With or without --engine, and whether Spark is installed or not: then that is said."""
    monkeypatch.setattr("sexton.cli.engines.find_spec", lambda _: None)
    assert asked(monkeypatch).engine == "local"
    assert asked(monkeypatch, master="spark://h:7077").engine == "spark"
    assert asked(monkeypatch, master="spark://h:7077", engine=Engine.spark).engine == "spark"
    with pytest.raises(ConfigError, match="needs Spark, which --engine local does not use"):
        asked(monkeypatch, master="spark://h:7077", engine=Engine.local)
    monkeypatch.setattr("sexton.cli.engines.find_spec", find_spec)
    assert asked(monkeypatch).engine == "spark"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"until": "soon"}, "--until: 'soon' is not a time"),
        ({"interval": "often"}, "--interval"),
        ({"value": None, "rising": True, "id": "int"}, "--rising"),
    ],
)
def test_what_cannot_be_meant_is_said_by_the_option_that_is_wrong(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        asked(monkeypatch, **options).asked()


def test_a_checkpoint_that_is_a_file_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "counts").touch()
    with pytest.raises(ConfigError, match="is a file"):
        asked(monkeypatch, checkpoint=str(tmp_path / "counts"))
