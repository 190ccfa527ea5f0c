"""A broker that only moves batches around never loads numpy, numba or a compression library."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numba", "numpy", "llvmlite", "cramjam", "lz4", "zstandard", "pyarrow", "asyncio")


def loaded(code: str) -> set[str]:
    """Which heavy modules are there after `code`, in a new Python."""
    show = f"\nimport sys; print(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code + show], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "sexton.records",
        "sexton.records.layout",
        "sexton.records.control",
        "sexton.records.varints",
        "sexton.records.codecs",
        "sexton.records.warm",
        "sexton.log.partition",
        "sexton.log.recovery",
        "sexton.log.directory",
        "sexton.log.cleanable",
        "sexton.node.broker",
    ],
)
def test_importing_loads_nothing_heavy(module: str) -> None:
    assert loaded(f"import {module}") == set()


def test_appending_and_reading_a_log_loads_nothing_heavy() -> None:
    code = """
from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.recovery import open_log
from sexton.records.control import ControlType, marker_batch
log = open_log(MemoryDisk(), "t-0", LogConfig(), now_ms=0).log
data = marker_batch(ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0,
                    timestamp=5)
log.append_as_leader(data, 0, 0, from_client=False)
assert log.read(0, 1000).slice.read()
"""
    assert loaded(code) == set()


def test_opening_a_small_log_after_a_crash_loads_nothing_heavy() -> None:
    code = """
from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.recovery import open_log
from sexton.records.few import few_batch
disk = MemoryDisk()
log = open_log(disk, "t-0", LogConfig(), now_ms=0).log
for key in (b"a", b"b", b"a"):
    log.append_as_leader(few_batch([(key, b"1")], 5), 0, 0)
again = open_log(disk, "t-0", LogConfig(), now_ms=0).log  # nothing says that it was closed
assert again.end_offset == 3, again.end_offset
"""
    assert loaded(code) == set()


def test_an_embedded_cluster_starts_without_the_compiler() -> None:
    assert loaded("import sexton.broker.cluster") <= {"asyncio"}


def modules_after(code: str) -> set[str]:
    """Every module that is there after `code`, in a new Python, with the packages they are in."""
    show = "\nimport sys; sys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code + show], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def test_help_of_up_is_shown_without_a_broker() -> None:
    there = modules_after("from sexton.cli.main import main; assert main(['up', '--help']) == 0")
    assert "sexton.cli.up" in there
    for package in ("asyncio", "ssl", "rich", "numpy"):
        assert package not in there
    for package in ("broker", "client", "lab", "log", "machines", "node", "protocol", "sim"):
        assert f"sexton.{package}" not in there


def test_an_embedded_cluster_is_imported_without_the_command_line_and_its_libraries() -> None:
    there = modules_after("from sexton.testing import EmbeddedCluster")
    assert "sexton.broker.cluster" in there
    for package in ("typer", "pydantic", "rich", "numpy", "numba"):
        assert package not in there
    for name in ("cli", "client", "lab", "report", "sim", "testing.apache_kafka"):
        assert f"sexton.{name}" not in there


def test_a_broker_is_imported_without_writing_the_methods_of_its_messages() -> None:
    code = """
import sys
import sexton.node.broker
from sexton.protocol.registry import apis
from sexton.protocol.messages.fetch import FetchRequest

def written():
    modules = [sys.modules[api.module] for api in apis() if api.module in sys.modules]
    kinds = [kind for module in modules for kind in vars(module).values()
             if hasattr(kind, "__dataclass_fields__")]
    assert len(kinds) > 200, len(kinds)
    return [kind.__name__ for kind in kinds if kind.__init__.__name__ == "__init__"]

assert written() == [], written()
FetchRequest()
assert written() == ["ReplicaState", "FetchRequest"], written()
"""
    modules_after(code)


def test_decoding_loads_numpy_but_the_compiler_only_once() -> None:
    code = "from sexton.records import scan; assert scan(bytes(100)).fault"
    loaded(code)
    assert {"numpy", "llvmlite"} <= loaded(code)
    assert "numba" not in loaded(code)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    import sexton.records

    with pytest.raises(AttributeError, match="no attribute 'decoed'"):
        _ = sexton.records.decoed


def test_every_public_name_can_be_had() -> None:
    import sexton.records

    for name in sexton.records.__all__:
        assert getattr(sexton.records, name) is not None
