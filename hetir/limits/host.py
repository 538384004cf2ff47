"""What the host's CPU has: hardware threads, caches and vector width."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from hetir.limits.model import CpuUnit, Part

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_CPUINFO = Path("/proc/cpuinfo")
# bytes of a vector register by the flag that the kernel reports, widest first
_VECTORS = (("avx512f", 64), ("avx2", 32), ("avx", 32), ("sse2", 16), ("asimd", 16))


def host_unit() -> CpuUnit:
    """Read the host; what cannot be read is 0, or 16 bytes for a vector."""
    flags = _flags()
    return CpuUnit(
        vector_bytes=next((width for flag, width in _VECTORS if flag in flags), 16),
        l1_bytes=_cache_bytes(1),
        l2_bytes=_cache_bytes(2),
        parts=(Part(name=platform.processor() or platform.machine(), units=_threads()),),
    )


def _threads() -> int:
    """Hardware threads that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _flags() -> frozenset[str]:
    try:
        text = _CPUINFO.read_text(encoding="utf-8")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        if line.startswith(("flags", "Features")):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def _cache_bytes(level: int) -> int:
    for index in sorted(_CACHES.glob("index*")):
        try:
            kind = (index / "type").read_text(encoding="utf-8").strip()
            found = int((index / "level").read_text(encoding="utf-8"))
            size = (index / "size").read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            continue
        if found == level and kind != "Instruction" and size.endswith("K"):
            return int(size[:-1]) * 1024
    return 0
