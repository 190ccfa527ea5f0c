"""Keeping the memory that a broker's buffers come from.

What is produced and fetched passes through buffers of some megabytes, each for a moment. The C
library returns what they leave behind to the kernel and asks it for pages again at once, which it
has to clear first: that costs as much as everything else that is done with them. So glibc is told
to keep a little. Only a process of our own does so: that of somebody's tests is not ours to tune.
"""

from __future__ import annotations

import sys

KEPT_BYTES = 64 << 20
# From here on a buffer is mapped on its own and given back when it is freed. glibc takes no more.
LARGE_BYTES = 32 << 20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h


def keep_freed_memory() -> bool:
    """Whether there was somebody to tell."""
    if sys.platform != "linux":
        return False
    import ctypes  # takes a few milliseconds: not before a cluster is ready

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is None:
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES))
