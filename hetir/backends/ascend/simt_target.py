"""What the SIMT generation (950) does directly, and what it refuses and why."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from hetir.backends.ascend import simd_scalar
from hetir.ir.types import SCALARS
from hetir.limits import limits_of
from hetir.target import Key, Target, instances

NAME = "ascend:950"
_WORDS = ("i32", "u32", "i64", "u64")

# division flushes subnormal numbers on this generation: hetIR's own steps take its place
_INEXACT: frozenset[Key] = frozenset({(name, "f32") for name in ("div", "floordiv", "mod")})


@cache
def target() -> Target:
    """What the SIMT generation does directly, and what it refuses and why."""
    covered: dict[Key, object] = dict.fromkeys(set(simd_scalar.RULES) - _INEXACT, True)
    covered |= dict.fromkeys(_memory() | PROGRAM, True)
    refused = dict(UNSUPPORTED)
    for instance in instances():
        key = instance.key
        if key in covered or key in refused:
            continue
        if "f64" in key:
            refused[key] = f"`{instance.spec.name}` on `f64` is not available (no f64 unit)"
        elif key[0].startswith("atomic.") and SCALARS[key[-1].split()[-1]].bits < 32:
            refused[key] = "atomics on less than 32 bits are not available"
    return Target(
        name=NAME,
        fingerprint=f"{NAME} 3510",
        rules=covered,
        features=limits_of(NAME).features,
        unsupported=refused,
    )


def _memory() -> frozenset[Key]:
    found: set[Key] = {(name, kind) for name in ("load", "store") for kind in SCALARS}
    for instance in instances():
        name, *kinds = instance.key
        if name in ("atomic.load", "atomic.store") and kinds[0] in (*_WORDS, "f32", "f64"):
            found.add(instance.key)
        if name == "atomic.cas" and kinds[0] in (*_WORDS, "f32", "f64"):
            found.add(instance.key)
        if name == "atomic.rmw":
            kind, element = instance.key[1:] if len(instance.key) == 3 else instance.key[1].split()
            if element in _WORDS or (kind == "exchange" and element in ("f32", "f64")):
                found.add(instance.key)
    return frozenset(found)


PROGRAM: frozenset[Key] = frozenset(
    {
        *((n,) for n in ("local_id", "group_id", "group_size", "num_groups", "global_id")),
        *((n,) for n in ("lane_id", "subgroup_id", "subgroup_size", "alloc", "dim", "stride")),
        *((n,) for n in ("base", "fence", "if", "for", "loop", "yield", "break", "continue")),
        ("return",),
        *(("shuffle", kind) for kind in SCALARS),
        ("barrier", "workgroup"),
        ("barrier", "subgroup"),
    }
)
"""Ops that both emitters, of SIMD and of SIMT code, handle themselves."""

UNSUPPORTED: Mapping[Key, str] = {
    ("barrier", "device"): "a barrier over the whole grid is not available",
    ("safe_point",): "stopping inside a workgroup is not available",
    ("call",): "a call that was not inlined is not available",
    ("view",): "an array that was not expanded is not available",
    ("print",): "printing from a kernel is not available",
    ("assert",): "reporting a failed check from a kernel is not available",
    ("out_of_bounds",): "reporting accesses out of bounds is not available",
}
"""What no generation does, and why."""
