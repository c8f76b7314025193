"""What makes torch fast on a CPU: number formats it has in hardware, and memory that is kept between batches."""

from __future__ import annotations

import ctypes
import logging
import platform
from functools import lru_cache
from pathlib import Path

logger = logging.getLogger(__name__)

# glibc's mallopt parameters (malloc.h).
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3


@lru_cache(maxsize=1)
def has_bf16() -> bool:
    """Say whether this CPU multiplies bfloat16 in hardware; without, it is slower than float32, and not done.

    Either amx_bf16 (tiles, the fastest) or avx512_bf16 (dot products of vectors), which was measured to be faster than
    float32 as well.
    """
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:  # not Linux: nothing is known, so the safe answer
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


@lru_cache(maxsize=1)
def keep_freed_memory() -> None:
    """Let the C library keep what a batch has freed for the next batch, instead of handing it back to the kernel.

    By default glibc returns blocks above 32 MiB at once, and getting zeroed pages anew for every layer can take longer
    than the arithmetic: MiniLM over 48-token pairs ran 3 to 4 times faster with this where page faults are
    dear (sandboxed or virtual machines), and no slower elsewhere. Does nothing where the C library is not glibc.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL(None)
    done = [
        libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30),
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1),
        libc.mallopt(_M_TOP_PAD, 1 << 28),
    ]
    if not all(done):
        logger.info("the C library did not take the settings for keeping memory; batches may be slower")
