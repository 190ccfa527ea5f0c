"""What numba does not have: loads, stores and CPU instructions on plain addresses.

The names that `native` gives to kernels, as LLVM instructions. Only the compiler needs this module:
where the kernels are compiled already, numba is never imported.
"""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_ARM = platform.machine() in ("aarch64", "arm64")
_I8, _I32, _I64, _I128 = (ir.IntType(bits) for bits in (8, 32, 64, 128))

# ── loads and stores at any alignment; Kafka's integers are big-endian, columns are native ──


def _load(bits: int, result: Any, *, swap: bool = False) -> Any:
    word = ir.IntType(bits)

    @intrinsic
    def load(_context: Any, _address: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, args: Any) -> Any:
            value = builder.load(builder.inttoptr(args[0], word.as_pointer()), align=1)
            return builder.bswap(value) if swap else value

        return result(types.int64), generate

    return load


def _store(bits: int, value_type: Any, *, swap: bool = False) -> Any:
    word = ir.IntType(bits)

    @intrinsic
    def store(_context: Any, _address: Any, _value: Any) -> Any:
        def generate(target: Any, builder: Any, _signature: Any, args: Any) -> Any:
            value = builder.bswap(args[1]) if swap else args[1]
            builder.store(value, builder.inttoptr(args[0], word.as_pointer()), align=1)
            return target.get_dummy_value()

        return types.void(types.int64, value_type), generate

    return store


load_u8 = _load(8, types.uint8)
load_u32 = _load(32, types.uint32)
load_u64 = _load(64, types.uint64)
load_i32 = _load(32, types.int32)
load_i64 = _load(64, types.int64)
load_be16 = _load(16, types.int16, swap=True)
load_be32 = _load(32, types.int32, swap=True)
load_be64 = _load(64, types.int64, swap=True)
store_u8 = _store(8, types.uint8)
store_u32 = _store(32, types.uint32)
store_i32 = _store(32, types.int32)
store_i64 = _store(64, types.int64)
store_u64 = _store(64, types.uint64)
store_be16 = _store(16, types.int16, swap=True)
store_be32 = _store(32, types.int32, swap=True)
store_be64 = _store(64, types.int64, swap=True)


@intrinsic
def copy(_context: Any, _to: Any, _source: Any, _size: Any) -> Any:
    """memcpy(to, source, size)"""

    def generate(target: Any, builder: Any, _signature: Any, args: Any) -> Any:
        to, source = (builder.inttoptr(a, _I8.as_pointer()) for a in args[:2])
        cgutils.raw_memcpy(builder, to, source, args[2], 1, align=1)
        return target.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def copy32(_context: Any, _to: Any, _source: Any) -> Any:
    """Copies 32 bytes at once; the caller knows both sides have them."""
    vector = ir.VectorType(_I64, 4)

    def generate(target: Any, builder: Any, _signature: Any, args: Any) -> Any:
        to, source = (builder.inttoptr(a, vector.as_pointer()) for a in args)
        builder.store(builder.load(source, align=1), to, align=1)
        return target.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def prefetch(_context: Any, _address: Any) -> Any:
    """A hint that `address` is read soon; harmless for any address."""

    def generate(target: Any, builder: Any, _signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], _I8.as_pointer())
        shape = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
        builder.call(function, [pointer, _I32(0), _I32(3), _I32(1)])
        return target.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def high_product(_context: Any, _left: Any, _right: Any) -> Any:
    """The upper half of a 64 by 64 bit product."""

    def generate(_target: Any, builder: Any, _signature: Any, args: Any) -> Any:
        left, right = (builder.zext(a, _I128) for a in args)
        return builder.trunc(builder.lshr(builder.mul(left, right), _I128(64)), _I64)

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def call_int32(
    _context: Any, _function: Any, _source: Any, _to: Any, _size: Any, _room: Any
) -> Any:
    """Calls the C function at an address: int f(const char *, char *, int, int)."""

    def generate(_target: Any, builder: Any, _signature: Any, args: Any) -> Any:
        pointer = _I8.as_pointer()
        shape = ir.FunctionType(_I32, [pointer, pointer, _I32, _I32])
        function = builder.inttoptr(args[0], shape.as_pointer())
        source, to = (builder.inttoptr(a, pointer) for a in args[1:3])
        return builder.call(function, [source, to, args[3], args[4]])

    return types.int32(types.int64, types.int64, types.int64, types.int32, types.int32), generate


# ── CRC-32C by the CPU's own instruction, where it has one ──


@intrinsic
def crc32c_word(_context: Any, _crc: Any, _word: Any) -> Any:
    """The running CRC after eight more bytes."""

    def generate(_target: Any, builder: Any, _signature: Any, args: Any) -> Any:
        if _ARM:
            shape = ir.FunctionType(_I32, [_I32, _I64])
            name = "llvm.aarch64.crc32cx"
            function = cgutils.get_or_insert_function(builder.module, shape, name)
            crc = builder.call(function, [builder.trunc(args[0], _I32), args[1]])
            return builder.zext(crc, _I64)
        shape = ir.FunctionType(_I64, [_I64, _I64])
        name = "llvm.x86.sse42.crc32.64.64"
        function = cgutils.get_or_insert_function(builder.module, shape, name)
        return builder.call(function, args)

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def crc32c_byte(_context: Any, _crc: Any, _byte: Any) -> Any:
    """The running CRC after one more byte."""

    def generate(_target: Any, builder: Any, _signature: Any, args: Any) -> Any:
        byte_type, name = (
            (_I32, "llvm.aarch64.crc32cb") if _ARM else (_I8, "llvm.x86.sse42.crc32.32.8")
        )
        byte = builder.zext(args[1], _I32) if _ARM else args[1]
        shape = ir.FunctionType(_I32, [_I32, byte_type])
        function = cgutils.get_or_insert_function(builder.module, shape, name)
        crc = builder.call(function, [builder.trunc(args[0], _I32), byte])
        return builder.zext(crc, _I64)

    return types.uint64(types.uint64, types.uint8), generate
