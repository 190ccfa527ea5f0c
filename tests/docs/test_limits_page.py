"""The page about limits has every limit of a listener, with its default."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from sexton.broker.large_produce import MOST_PARTS
from sexton.broker.limits import Limits
from sexton.broker.listener import MOST_QUEUED, ListenerConfig
from sexton.broker.options import known_options
from sexton.broker.security import SecurityConfig

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| \*?`([a-z.]+)`\*? \| (\d+) \|", re.MULTILINE)


def test_every_limit_is_there_with_its_default() -> None:
    told = dict(ROW.findall((DOCS / "reference/limits.md").read_text(encoding="utf-8")))
    others = {field.name for field in fields(SecurityConfig)} | {"host", "port", "limits"}
    true = {
        field.name.replace("_", "."): str(getattr(config, field.name))
        for config in (Limits(), ListenerConfig())
        for field in fields(config)
        if field.name not in others
    }
    assert told == true
    assert told.keys() <= set(known_options())


def test_the_limits_in_the_text_are_the_true_ones() -> None:
    page = (DOCS / "reference/limits.md").read_text(encoding="utf-8")
    assert f"{MOST_PARTS} topics" in page
    assert f"{MOST_QUEUED} messages" in page


def test_options_for_security_are_those_that_there_are() -> None:
    page = (DOCS / "how-to/secure-a-cluster.md").read_text(encoding="utf-8")
    used = set(re.findall(r"--set ([a-z.]+)=", page))
    assert used
    assert used <= set(known_options())
