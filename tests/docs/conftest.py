"""The world of the pages, made once: each test starts from a copy of its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.world import build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("docs") / "data"
    build(data)
    return data
