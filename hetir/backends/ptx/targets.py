"""PTX targets: their names, the PTX version that each needs, and what each can do directly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from hetir.backends.llvm.machine import Machine
from hetir.backends.llvm.rules import ALL, FLOATS, INTS, NARROW, RULES, Key
from hetir.diagnostics import CompileError
from hetir.ir.ops import NATIVE_KINDS, REDUCE_KINDS
from hetir.limits import Limits, limits_of
from hetir.target import Target

WARP = 32
# PTX ISA, "PTX ISA Notes" of `.target`: the first version that knows the capability, times ten
_FIRST_VERSION: Mapping[str, int] = {
    **{"75": 63, "80": 70, "86": 71, "87": 74, "88": 90, "89": 78, "90": 78, "90a": 80},
    **{"100": 86, "100a": 86, "100f": 88, "103": 88, "103a": 88, "103f": 88},
    **{"110": 90, "110a": 90, "110f": 90, "120": 87, "120a": 87, "120f": 88},
    **{"121": 88, "121a": 88, "121f": 88},
}
_TRIPLE = "nvptx64-nvidia-cuda"
ONE_WAY_FENCES_VERSION = 86
LARGE_PARAMETERS_VERSION = 81
BF16_ATOMIC_VERSION = 78


class UnknownPtxTargetError(CompileError):
    """The target names no NVIDIA capability that hetir compiles for.

    Cause: a misspelt name. Fix: write `ptx:sm_75` to `ptx:sm_121`, or one with `a` or `f`, as
    `hetir targets` lists them.
    """

    code = "HET370"


class WidthError(CompileError):
    """The kernel pins a subgroup width that is no power of two up to 128.

    Cause: `subgroup_size=` of another value. Fix: pin a power of two.
    """

    code = "HET371"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One capability: `arch` is NVIDIA's word for it, `version` the oldest PTX that has it."""

    name: str
    arch: str
    capability: int
    version: int
    limits: Limits

    def machine(self, version: int) -> Machine:
        """What LLVM compiles for, at a PTX version at least as new as the chip's."""
        newest = max(version, self.version)
        return Machine(triple=_TRIPLE, cpu=self.arch, features=f"+ptx{newest}")


@cache
def chip_of(name: str) -> Chip:
    """The capability that a target name stands for."""
    match = re.fullmatch(r"ptx:sm_((\d+)[af]?)", name)
    if match is None or match[1] not in _FIRST_VERSION:
        raise UnknownPtxTargetError(
            f"`{name}` names no NVIDIA capability that hetir compiles for",
            hint="write one that `hetir targets` lists, such as `ptx:sm_90`",
        )
    return Chip(
        name=name,
        arch=f"sm_{match[1]}",
        capability=int(match[2]),
        version=_FIRST_VERSION[match[1]],
        limits=limits_of(name),
    )


@cache
def target_of(name: str, width: int, *, cooperative: bool = False) -> Target:
    """What a chip does directly for kernels whose subgroups have `width` work-items.

    Only a launch that runs all workgroups at once can wait for the grid.
    """
    chip = chip_of(name)
    if width not in (1, 2, 4, 8, 16, 32, 64, 128):
        raise WidthError(
            f"a subgroup of {width} work-items is not available on target `{name}`",
            hint="pin a power of two up to 128",
        )
    covered = {("native", kind) for kind in NATIVE_KINDS}
    covered |= _memory(chip) | _subgroups(chip, width) | _PROGRAM
    refused = dict(_UNSUPPORTED)
    if cooperative:
        covered |= {_GRID_BARRIER}
        del refused[_GRID_BARRIER]
    return Target(
        name=name,
        fingerprint=f"{chip.arch};{width}",
        rules={**RULES, **dict.fromkeys(covered, True)},
        features=chip.limits.features,
        limits={"shared_bytes": chip.limits.shared_bytes_optin},
        unsupported=refused,
    )


def _memory(chip: Chip) -> frozenset[Key]:
    words = (*INTS, *FLOATS, *NARROW)
    plain = {(name, kind) for name in ("load", "store") for kind in ALL}
    atomic = {(f"atomic.{n}", kind) for n in ("load", "store", "cas") for kind in words}
    kinds = ("add", "sub", "min", "max", "and", "or", "xor", "exchange")
    rmw = {("atomic.rmw", kind, element) for kind in kinds for element in INTS}
    rmw |= {("atomic.rmw", "exchange", kind) for kind in words}
    sums = ["f16", "f32", "f64"]
    if "atomic_bf16_add" in chip.limits.features:
        sums.append("bf16")
    rmw |= {("atomic.rmw", kind, element) for kind in ("add", "sub") for element in sums}
    return frozenset(plain | atomic | rmw)


def _subgroups(chip: Chip, width: int) -> frozenset[Key]:
    """Up to a warp by its instructions; wider ones only shuffle, through shared memory."""
    shuffles = {("shuffle", kind) for kind in ALL}
    if width > WARP:
        return frozenset(shuffles)
    found = shuffles | {("ballot",), ("vote",)}
    if chip.capability >= 80:
        # order does not matter to these: any tree gives the same bits
        exact = [k for k in REDUCE_KINDS if k != "mul"]
        found |= {("subgroup_reduce", kind, t) for kind in exact for t in ("i32", "u32")}
    return frozenset(found)


# ops that the emitter handles itself
_PROGRAM: frozenset[Key] = frozenset(
    {
        *((n,) for n in ("local_id", "group_id", "group_size", "num_groups", "global_id")),
        *((n,) for n in ("lane_id", "subgroup_id", "subgroup_size", "alloc", "dim", "stride")),
        *((n,) for n in ("base", "fence", "if", "for", "loop", "yield", "break", "continue")),
        *((n,) for n in ("return", "print", "assert", "out_of_bounds")),
        ("barrier", "workgroup"),
        ("barrier", "subgroup"),
    }
)

_GRID_BARRIER: Key = ("barrier", "device")
_UNSUPPORTED: Mapping[Key, str] = {
    _GRID_BARRIER: "a barrier over the whole grid is not available",
    ("safe_point",): "stopping inside a kernel is not available",
    ("call",): "a call that was not inlined is not available",
    ("view",): "an array that was not expanded is not available",
}
