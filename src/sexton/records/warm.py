"""Compile the kernels ahead of time, so that nobody waits for the compiler later."""

from __future__ import annotations

from importlib import import_module

KERNEL_MODULES = (
    "sexton.records.append_kernels",
    "sexton.records.crc_kernels",
    "sexton.records.kernels",
    "sexton.records.lz4_kernels",
)


def warmup(modules: tuple[str, ...] = KERNEL_MODULES) -> list[str]:
    """Loads every kernel, compiling what the cache does not hold; returns their names.

    Packages above pass their own kernel modules as well.
    """
    from sexton.records.native import KERNELS

    for module in modules:
        import_module(module)
    for kernel in KERNELS:
        kernel.load()
    return [kernel.name for kernel in KERNELS]
