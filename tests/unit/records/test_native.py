"""Compiled kernels are kept, found again, and never used for another source."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sexton
from sexton.records import native
from sexton.records.native import HAS_CRC32C, KERNELS, address, cache_directory, source_key
from sexton.records.warm import KERNEL_MODULES, warmup

PACKAGE = Path(sexton.__file__).parent


def run(code: str, cache: Path) -> str:
    """What a new Python prints that keeps its kernels in `cache`."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_second_process_finds_the_kernels_and_compiles_nothing(tmp_path: Path) -> None:
    code = (
        "from sexton.records.warm import warmup\n"
        "from sexton.records.native import KERNELS\n"
        "names = warmup(('sexton.records.crc_kernels',))\n"  # the others take longer, that is all
        "hits = sum(sum(k.stats.cache_hits.values()) for k in KERNELS)\n"
        "misses = sum(sum(k.stats.cache_misses.values()) for k in KERNELS)\n"
        "print(len(names), hits, misses)\n"
    )
    kernels, hits, misses = map(int, run(code, tmp_path).split())
    assert hits == 0
    assert misses >= kernels >= 2
    written = state(tmp_path)
    assert len(written) >= 2 * kernels  # an index and an object file each
    assert run(code, tmp_path) == f"{kernels} {misses} 0"
    assert state(tmp_path) == written


def state(directory: Path) -> dict[str, tuple[int, int]]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in files}


def test_a_change_in_any_kernel_module_is_another_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = source_key()
    copy = shutil.copytree(PACKAGE, tmp_path / "sexton")
    monkeypatch.setattr(native, "__file__", str(copy / "records" / "native.py"))
    assert source_key() == before
    keys = {before}
    modules = [*copy.glob("*/*kernels.py"), copy / "records" / "native.py"]
    for module in modules:
        module.write_text(module.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
        keys.add(source_key())
    assert len(keys) == 1 + len(modules) >= 4
    (copy / "records" / "decoder.py").write_text("# no kernel is made of this\n", encoding="utf-8")
    assert source_key() in keys


def test_the_cache_lies_where_numba_is_told_to_put_it(tmp_path: Path) -> None:
    code = "from sexton.records.native import cache_directory; print(cache_directory())"
    assert run(code, tmp_path) == str(tmp_path / "kernels" / source_key())
    assert cache_directory().name == source_key()


def test_kernels_work_where_no_cache_can_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"a directory cannot be made here")
    code = "from sexton.records.crc_kernels import crc32c; print(crc32c(0, 0))"
    assert run(code, blocked) == "0"


def test_warmup_names_every_kernel_and_leaves_nothing_to_compile() -> None:
    names = warmup()
    for name in ("scan", "decode", "encode", "measure", "seal", "check_crcs"):
        assert f"sexton.records.kernels.{name}" in names
    assert "sexton.records.crc_kernels.crc32c" in names
    assert len(names) == len(set(names))
    for kernel in KERNELS:
        assert not kernel._can_compile  # only the signatures it was made for
        assert kernel.signatures
        assert kernel.targetoptions["nogil"]


def test_every_kernel_module_of_this_package_is_warmed_up() -> None:
    found = {
        f"sexton.records.{path.stem}"
        for path in (PACKAGE / "records").glob("*kernels.py")
        if "\n@kernel(" in path.read_text(encoding="utf-8")  # the others are parts of kernels
    }
    assert found == set(KERNEL_MODULES)


def test_an_array_that_is_not_in_one_piece_has_no_address() -> None:
    import numpy as np

    with pytest.raises(AssertionError):
        address(np.zeros(10, np.uint8)[::2])


def test_this_machine_sums_with_its_own_instruction_if_it_has_one() -> None:
    flags = Path("/proc/cpuinfo")
    if flags.exists() and "sse4_2" in flags.read_text():
        assert HAS_CRC32C
    assert isinstance(HAS_CRC32C, bool)
