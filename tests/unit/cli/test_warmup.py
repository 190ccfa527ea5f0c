from __future__ import annotations

import re
from pathlib import Path

import pytest

import sexton
from sexton import records
from sexton.cli.warmup import HIGHER_KERNEL_MODULES
from sexton.records.warm import KERNEL_MODULES
from tests.conftest import RunSexton


def test_warmup_names_every_kernel(run_sexton: RunSexton, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "warmup", lambda _modules: ["decode", "encode"])
    answer = run_sexton("warmup", "--format", "json").json
    assert answer["kernels"] == [{"kernel": "decode"}, {"kernel": "encode"}]
    assert answer["summary"]["kernels"] == 2


def test_every_module_with_kernels_is_compiled() -> None:
    source = Path(sexton.__file__).parent
    modules = {
        ".".join(("sexton", *path.relative_to(source).with_suffix("").parts))
        for path in source.rglob("*kernels.py")
        if re.search("^@kernel", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert modules == {*KERNEL_MODULES, *HIGHER_KERNEL_MODULES}
