from __future__ import annotations

import pytest

from sexton import records
from tests.conftest import RunSexton


def test_warmup_names_every_kernel(run_sexton: RunSexton, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "warmup", lambda _modules: ["decode", "encode"])
    answer = run_sexton("warmup", "--format", "json").json
    assert answer["kernels"] == [{"kernel": "decode"}, {"kernel": "encode"}]
    assert answer["summary"]["kernels"] == 2
