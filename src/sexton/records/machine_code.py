"""A kernel's machine code: made once by numba, kept as an object file, called by its address.

    kernel ──found in the cache?──▶ object file ──llvmlite──▶ an address ──ctypes──▶ a call
       └──no──▶ numba (`compiler`) ──▶ object file, kept for the next process

numba has a cache too, but to read it one has to load numba with all it knows of types, which takes
a second. Our kernels deal in integers and addresses only, and what the compiler has made of them
needs no Python at all: it is linked by llvmlite in two milliseconds, on an interpreter that has
never heard of numba.

The cache is keyed by everything that the code depends on: the source of all modules that kernels
are made of, the versions of numba and llvmlite, the processor and all it can do. A file that is not
exactly what was written counts as missing. Where nothing can be written each process compiles for
itself.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from operator import index
from pathlib import Path
from typing import Any

from llvmlite import __version__ as llvmlite_version
from llvmlite import binding

from sexton.records.native import Kernel

SYMBOL = "sexton_kernel"  # of the function in its object file
_PARTS = ("*/native.py", "*/intrinsics.py", "*/compiler.py", "*/*kernels.py")
_SIGNATURE = re.compile(r"(?:UniTuple\((?P<each>\w+), (?P<size>\d+)\)|(?P<one>\w+))\((?P<of>.*)\)")
_TYPES: dict[str, Any] = {
    "int32": ctypes.c_int32,
    "uint32": ctypes.c_uint32,
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
}
_engines: list[binding.ExecutionEngine] = []  # they own the memory that the code is in


def load(kernel: Kernel) -> Callable[..., Any]:
    """A function that runs the kernel, without Python's lock."""
    module = kernel.function.__module__
    assert module.endswith("kernels"), f"{module} is no part of the key: call it ..._kernels"
    path = cache_directory() / f"{kernel.name}.o"
    code = _kept(path)
    if code is None:
        from sexton.records.compiler import compile_kernel

        code = compile_kernel(kernel)
        _keep(path, code)
    return _callable(_link(code), kernel.signature)


# ── the cache ──


def source_key() -> str:
    """One digest of all modules that kernels are made of, and of numba's version."""
    digest = hashlib.sha256()
    package = Path(__file__).parent.parent
    for path in sorted(path for part in _PARTS for path in package.glob(part)):
        digest.update(path.read_bytes())
    numba = find_spec("numba")  # is not imported by this
    if numba is not None and numba.origin is not None:
        digest.update(Path(numba.origin).with_name("_version.py").read_bytes())
    return digest.hexdigest()[:16]


def machine_key() -> str:
    """One digest of what decides which code runs here, and how it is linked."""
    features = binding.get_host_cpu_features().flatten()
    words = (llvmlite_version, binding.get_process_triple(), binding.get_host_cpu_name(), features)
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


@cache
def cache_directory() -> Path:
    """Where machine code is kept; NUMBA_CACHE_DIR moves it."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    root = Path(chosen) if chosen else Path("~/.cache/sexton").expanduser()
    return root / "kernels" / f"{source_key()}-{machine_key()}"


def _kept(path: Path) -> bytes | None:
    """The object file, if it is there and whole."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, code = content[:32], content[32:]
    return code if digest == hashlib.sha256(code).digest() else None


def _keep(path: Path, code: bytes) -> None:
    """Another process sees all of the file or nothing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.urandom(4).hex()}")
        draft.write_bytes(hashlib.sha256(code).digest() + code)
        draft.replace(path)
    except OSError:
        pass  # nowhere to write: the kernel is compiled anew in each process


# ── from bytes to a call ──


def _link(code: bytes) -> int:
    """Puts the code into memory, with the addresses it refers to; returns where it is."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    machine = target.create_target_machine(codemodel="jitdefault", jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    address = engine.get_function_address(SYMBOL)
    assert address, "the compiler has named it so"
    return int(address)


def _callable(address: int, signature: str) -> Callable[..., Any]:
    """numba's convention: where to put the result, where an exception, the arguments; a status."""
    found = _SIGNATURE.fullmatch(signature)
    assert found is not None, signature
    types = [_TYPES[name] for name in found["of"].split(", ")]
    nothing = found["one"] == "void"
    element = ctypes.c_int64 if nothing else _TYPES[found["each"] or found["one"]]
    several = found["size"] is not None
    result_type = element * int(found["size"] or 1)
    byref = ctypes.byref
    run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *types)(address)

    def call(*arguments: int) -> Any:
        assert len(arguments) == len(types)
        result, exception = result_type(), ctypes.c_void_p()
        status = run(byref(result), byref(exception), *map(index, arguments))
        assert status == 0, "a kernel raises nothing"
        if several:
            return tuple(result)
        return None if nothing else result[0]

    return call
