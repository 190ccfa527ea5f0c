"""Compiled kernels are kept, found again, and never used for another source."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from llvmlite import binding

import sexton
from sexton.records import machine_code
from sexton.records.crc_kernels import crc32c
from sexton.records.machine_code import cache_directory, machine_key, source_key
from sexton.records.native import KERNELS, address, has_crc32c, kernel
from sexton.records.warm import KERNEL_MODULES, warmup

PACKAGE = Path(sexton.__file__).parent
DIGITS = np.frombuffer(b"123456789", np.uint8)


def run(code: str, cache: Path) -> str:
    """What a new Python prints that keeps its kernels in `cache`."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# The others take longer to compile, that is all.
SUM = """
import sys
import numpy as np
from sexton.records.crc_kernels import crc32c
from sexton.records.native import address
digits = np.frombuffer(b"123456789", np.uint8)
print(hex(crc32c(address(digits), address(digits) + 9)), "numba" in sys.modules)
"""
COMPILED, FOUND = "0xe3069283 True", "0xe3069283 False"


def test_a_second_process_finds_the_kernel_and_never_loads_the_compiler(tmp_path: Path) -> None:
    assert run(SUM, tmp_path) == COMPILED
    written = state(tmp_path)
    assert len(written) == 1
    assert run(SUM, tmp_path) == FOUND
    assert state(tmp_path) == written


def state(directory: Path) -> dict[str, tuple[int, int]]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in files}


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_machine_code_that_is_damaged_is_made_again_and_not_run(
    tmp_path: Path, damage: str
) -> None:
    run(SUM, tmp_path)
    (path,) = (path for path in tmp_path.rglob("*.o") if path.is_file())
    whole = path.read_bytes()
    middle = len(whole) // 2
    flipped = bytes([*whole[:middle], whole[middle] ^ 1, *whole[middle + 1 :]])
    path.write_bytes({"cut": whole[:middle], "flipped": flipped, "empty": b""}[damage])
    assert run(SUM, tmp_path) == COMPILED
    assert run(SUM, tmp_path) == FOUND


def test_a_change_in_any_kernel_module_is_another_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = source_key()
    copy = shutil.copytree(PACKAGE, tmp_path / "sexton")
    monkeypatch.setattr(machine_code, "__file__", str(copy / "records" / "machine_code.py"))
    assert source_key() == before
    keys = {before}
    modules = [
        *copy.glob("*/*kernels.py"),
        *(copy / "records" / name for name in ("native.py", "intrinsics.py", "compiler.py")),
    ]
    for module in modules:
        module.write_text(module.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
        keys.add(source_key())
    assert len(keys) == 1 + len(modules) >= 4
    (copy / "records" / "decoder.py").write_text("# no kernel is made of this\n", encoding="utf-8")
    assert source_key() in keys


def test_another_numba_is_another_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = find_spec("numba")
    assert installed is not None and installed.origin is not None
    (tmp_path / "_version.py").write_bytes(
        Path(installed.origin).with_name("_version.py").read_bytes()
    )
    other = ModuleSpec("numba", None, origin=str(tmp_path / "__init__.py"))
    before = source_key()
    monkeypatch.setattr(machine_code, "find_spec", lambda _name: other)
    assert source_key() == before
    (tmp_path / "_version.py").write_text("another", encoding="utf-8")
    assert source_key() != before


def test_another_processor_is_another_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    before = machine_key()
    assert machine_key() == before
    monkeypatch.setattr(binding, "get_host_cpu_name", lambda: "z80")
    assert machine_key() != before


def test_the_cache_lies_where_numba_is_told_to_put_it(tmp_path: Path) -> None:
    code = "from sexton.records.machine_code import cache_directory; print(cache_directory())"
    assert run(code, tmp_path) == str(tmp_path / "kernels" / f"{source_key()}-{machine_key()}")
    assert cache_directory().name == f"{source_key()}-{machine_key()}"


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
    assert len(names) == len(KERNELS)


def test_a_kernel_takes_as_many_integers_as_it_has_parameters() -> None:
    start = address(DIGITS)
    assert crc32c(np.int64(start), start + 9) == 0xE3069283
    for wrong in ((start,), (start, start, start)):
        with pytest.raises(AssertionError):
            crc32c(*wrong)
    with pytest.raises(TypeError):
        crc32c(float(start), start)


def test_a_kernel_lives_in_a_module_that_the_cache_is_keyed_by() -> None:
    @kernel("int64(int64)")
    def elsewhere(place):  # type: ignore[no-untyped-def]
        return place

    KERNELS.remove(elsewhere)
    with pytest.raises(AssertionError, match="kernels"):
        elsewhere(1)


def test_every_kernel_module_of_this_package_is_warmed_up() -> None:
    found = {
        f"sexton.records.{path.stem}"
        for path in (PACKAGE / "records").glob("*kernels.py")
        if "\n@kernel(" in path.read_text(encoding="utf-8")  # the others are parts of kernels
    }
    assert found == set(KERNEL_MODULES)


def test_an_array_that_is_not_in_one_piece_has_no_address() -> None:
    with pytest.raises(AssertionError):
        address(np.zeros(10, np.uint8)[::2])


def test_this_machine_sums_with_its_own_instruction_if_it_has_one() -> None:
    flags = Path("/proc/cpuinfo")
    if flags.exists() and "sse4_2" in flags.read_text():
        assert has_crc32c()
    assert isinstance(has_crc32c(), bool)
