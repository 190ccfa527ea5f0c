"""Where is lz4 itself?

In the extension module of the `lz4` package, which carries the library with it (or is linked to
the system's). Its two functions for single blocks are called from kernels by their addresses: a
call through Python for each batch takes as long as the decompression of a small one. Where they
cannot be found, everything still works, batch by batch, through the package's own interface.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import NamedTuple


class Lz4(NamedTuple):
    """Addresses of C functions: int f(const char *from, char *to, int size, int room)."""

    decompress: int  # LZ4_decompress_safe: the bytes written, or a negative number
    compress: int  # LZ4_compress_default: the bytes written, or 0 if there is not enough room


@cache
def find_lz4() -> Lz4 | None:
    """The functions, or None if this machine's package hides them."""
    if sys.byteorder != "little":
        return None  # the kernels read the sizes of blocks as they are in memory
    try:
        import lz4.block._block as package

        library = ctypes.CDLL(package.__file__)
        return Lz4(_address(library.LZ4_decompress_safe), _address(library.LZ4_compress_default))
    except (ImportError, OSError, AttributeError):
        return None


def _address(function: ctypes._NamedFuncPointer) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address
