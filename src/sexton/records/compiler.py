"""Kernels to object files, by numba; needed once per machine, source and version.

A kernel's source refers to helpers, to other kernels and to names that mean something in a kernel
only (`native`). Here each is given to numba as what it stands for, and what LLVM has made of the
whole is written down as an object file. It refers to nothing but the C library.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numba
from llvmlite import binding
from numba.core import sigutils, types

from sexton.records import intrinsics
from sexton.records.machine_code import SYMBOL
from sexton.records.native import CFunction, Constant, Inline, Intrinsic, Kernel

_Meant = Intrinsic | CFunction | Constant | Inline | Kernel
_OPTIONS: dict[str, Any] = {
    "boundscheck": False,
    "error_model": "numpy",  # nothing raises
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


def compile_kernel(kernel: Kernel) -> bytes:
    """An object file with one function of ours."""
    dispatcher = _meaning(kernel)
    (compiled,) = dispatcher.overloads.values()
    module = binding.parse_assembly(compiled.library.get_llvm_str())
    module.get_function(compiled.fndesc.llvm_func_name).name = SYMBOL
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=3,
        codemodel="jitdefault",
        jit=True,
    )
    return bytes(machine.emit_object(module))


@cache
def _meaning(name: _Meant) -> Any:
    """What numba is to understand."""
    match name:
        case Intrinsic():
            return getattr(intrinsics, name.name)
        case CFunction():
            arguments, result = sigutils.normalize_signature(name.signature)
            return types.ExternalFunction(name.name, result(*arguments))
        case Constant():
            return name.of()
        case Inline():
            return numba.njit(inline="always", **_OPTIONS)(_understood(name.function))
        case Kernel():
            dispatcher = numba.njit(**_OPTIONS)(_understood(name.function))
            dispatcher.compile(name.signature)
            dispatcher.disable_compile()
            return dispatcher


def _understood(function: Callable[..., Any]) -> FunctionType:
    """The same function, in a module where each name is what it stands for."""
    assert isinstance(function, FunctionType)
    code, known = function.__code__, function.__globals__
    meant = {
        name: _meaning(known[name]) for name in code.co_names if isinstance(known.get(name), _Meant)
    }
    return FunctionType(code, {**known, **meant}, function.__name__)
