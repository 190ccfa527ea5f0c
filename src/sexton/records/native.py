"""What kernels are written in: Python that is compiled, with pointers.

A kernel takes integer addresses and walks Kafka's bytes through the loads and stores below, at
memory speed. (Arrays handed to inlined helpers cost a reference count per call: 40 instead of 15 ns
a record.) An address is only ever loaded from after the kernel has checked it against the end of
its buffer.

    @inline    a helper, which becomes part of every kernel that uses it
    @kernel    what Python calls; compiled when it is first called, or found in the cache

Nothing here compiles anything, and what a module of kernels imports is cheap: numba, which takes
longer to load than most commands take to do their work, comes in when the cache has no machine code
(`machine_code`). So a name such as `load_u8` is only a name; `intrinsics` has what it stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

KERNELS: list[Kernel] = []  # of every module that was imported, for `warmup`


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """What has a meaning in a kernel only, under this name in `intrinsics`."""

    name: str


@dataclass(frozen=True, slots=True)
class CFunction:
    """A function of the C library, to be called in a kernel."""

    name: str
    signature: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A number or an array, worked out when a kernel that uses it is compiled."""

    of: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Inline:
    """A helper of kernels."""

    function: Callable[..., Any]


class Kernel:
    """A function in machine code, once it is called."""

    __slots__ = ("_code", "function", "signature")

    def __init__(self, function: Callable[..., Any], signature: str) -> None:
        self.function, self.signature = function, signature
        self._code: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        return f"{self.function.__module__}.{self.function.__name__}"

    def __call__(self, *arguments: int) -> Any:
        return (self._code or self.load())(*arguments)

    def load(self) -> Callable[..., Any]:
        """Its machine code, from the cache or from the compiler."""
        from sexton.records.machine_code import load

        self._code = load(self)
        return self._code


def kernel(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """Of integers to one integer, several as a `UniTuple`, or nothing; types are numba's."""

    def declare(function: Callable[..., Any]) -> Kernel:
        KERNELS.append(Kernel(function, signature))
        return KERNELS[-1]

    return declare


inline: Any = Inline


def address(array: np.ndarray[Any, Any]) -> int:
    """The address of an array's first byte; the caller keeps the array alive."""
    assert array.flags.c_contiguous
    return int(array.ctypes.data)


def has_crc32c() -> bool:
    """Has this CPU an instruction for the checksum of Kafka's batches?"""
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    return bool(features.get("sse4.2") or features.get("crc"))  # x86, ARM


# Loads and stores at any alignment; Kafka's integers are big-endian, columns are native.
load_u8: Any = Intrinsic("load_u8")
load_u32: Any = Intrinsic("load_u32")
load_u64: Any = Intrinsic("load_u64")
load_i32: Any = Intrinsic("load_i32")
load_i64: Any = Intrinsic("load_i64")
load_be16: Any = Intrinsic("load_be16")
load_be32: Any = Intrinsic("load_be32")
load_be64: Any = Intrinsic("load_be64")
store_u8: Any = Intrinsic("store_u8")
store_u32: Any = Intrinsic("store_u32")
store_i32: Any = Intrinsic("store_i32")
store_i64: Any = Intrinsic("store_i64")
store_u64: Any = Intrinsic("store_u64")
store_be16: Any = Intrinsic("store_be16")
store_be32: Any = Intrinsic("store_be32")
store_be64: Any = Intrinsic("store_be64")

copy: Any = Intrinsic("copy")
copy32: Any = Intrinsic("copy32")
prefetch: Any = Intrinsic("prefetch")
high_product: Any = Intrinsic("high_product")
call_int32: Any = Intrinsic("call_int32")
crc32c_word: Any = Intrinsic("crc32c_word")
crc32c_byte: Any = Intrinsic("crc32c_byte")
