"""What of this machine and of LLVM shapes CPU code, found without loading LLVM."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import platform
from functools import cache
from pathlib import Path

VERSION = 49
"""Of the code that this backend writes, part of every key."""

USES = frozenset(("index_bits", "disjoint"))
"""The fields of `Assumptions` that this backend makes other code of."""

TYPICAL_CACHE = 32 << 20
"""The last cache of a processor of which nothing is known, in bytes."""

_FLAGS = ("flags", "Features", "model name", "CPU part")


@cache
def fingerprint(target: str) -> str:
    """Part of the cache key: the target, the LLVM wheel, and for the host its CPU."""
    parts = [str(VERSION), target, _wheel("llvmlite")]
    if target == "cpu":
        parts += [platform.machine(), _host_cpu(), str(cache_bytes())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def cache_bytes() -> int:
    """The size of this machine's last cache, or what is usual where the system does not say."""
    found = TYPICAL_CACHE
    for size in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")):
        text = size.read_text().strip()
        if text.endswith("K") and text[:-1].isdecimal():
            found = int(text[:-1]) << 10
    return found


def _wheel(name: str) -> str:
    """The version of an installed package: its metadata's folder says it, `metadata` is slow."""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.origin is not None:
        beside = Path(spec.origin).parent.parent
        for folder in beside.glob(f"{name}-*.dist-info"):
            return folder.name.removeprefix(f"{name}-").removesuffix(".dist-info")
    return importlib.import_module("importlib.metadata").version(name)


def _host_cpu() -> str:
    """The lines of the first processor that say what it can do."""
    try:
        first = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    except OSError:
        return platform.processor()
    return "\n".join(line for line in first.splitlines() if line.startswith(_FLAGS))
