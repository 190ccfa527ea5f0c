"""Ids of topics, as brokers say them that know them and brokers that do not."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from sexton.base.errors import ConfigError
from sexton.retry.background import Background
from sexton.retry.config import RetryConfig
from sexton.retry.tasks_io import TasksIo
from sexton.retry.topics import Names
from tests.stores.test_parts import NO_ID, OTHER_ID, SOME_ID, Answers


def _looked(*ids: bytes) -> TasksIo:
    background = cast("Background", SimpleNamespace(client=Answers(*ids)))
    config = RetryConfig(Names.of("orders", "g"), "g", {"bootstrap.servers": "nowhere:1"})
    io = TasksIo(background, config)
    for _ in ids:
        asyncio.run(io._look_at_topics())
    return io


def test_a_broker_that_has_none_says_nothing_about_them() -> None:
    """Brokers before 2.8 have none; while a cluster is upgraded, some say them and some do not."""
    assert _looked(NO_ID)._main_id == b""
    assert _looked(NO_ID, SOME_ID, NO_ID)._main_id == SOME_ID
    assert _looked(SOME_ID, NO_ID)._main_id == SOME_ID


def test_two_ids_are_two_topics() -> None:
    with pytest.raises(ConfigError, match="orders: was deleted and created again"):
        _looked(NO_ID, SOME_ID, NO_ID, OTHER_ID)
