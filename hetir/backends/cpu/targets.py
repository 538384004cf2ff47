"""CPU targets: names, LLVM's words for them, and what each can do directly."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from hetir.backends.cpu import subgroups
from hetir.backends.host import TYPICAL_CACHE, cache_bytes
from hetir.backends.llvm import memory
from hetir.backends.llvm.machine import Machine, host
from hetir.backends.llvm.rules import HALF_CONVERSIONS, ROUNDING, RULES, Key
from hetir.diagnostics import CompileError
from hetir.target import Target

# what a processor of each level has beyond the one before it, as far as rules depend on it
_V3 = ("sse4.1", "f16c", "fma", "avx2")
_LEVELS = ((), ("sse4.1",), _V3, (*_V3, "avx512f"))

_X86: Mapping[str, int] = {
    **{"x86-64": 0, "x86-64-v2": 1, "x86-64-v3": 2, "x86-64-v4": 3},
    **dict.fromkeys(("nehalem", "westmere", "silvermont", "goldmont", "btver2"), 1),
    **dict.fromkeys(("haswell", "broadwell", "skylake", "alderlake", "raptorlake"), 2),
    **dict.fromkeys(("meteorlake", "arrowlake", "lunarlake", "sierraforest"), 2),
    **dict.fromkeys(("znver1", "znver2", "znver3"), 2),
    **dict.fromkeys(("skylake-avx512", "cascadelake", "icelake-client", "icelake-server"), 3),
    **dict.fromkeys(("sapphirerapids", "emeraldrapids", "graniterapids"), 3),
    **dict.fromkeys(("znver4", "znver5"), 3),
}
_ARM = frozenset(
    (
        *("generic", "cortex-a53", "cortex-a72", "cortex-a76", "cortex-a78", "cortex-x1"),
        *("neoverse-n1", "neoverse-n2", "neoverse-v1", "neoverse-v2", "apple-m1", "apple-m2"),
        *("apple-m3", "apple-m4", "ampere1", "a64fx", "tsv110"),
    )
)
_SYSTEM = "unknown-linux-gnu"


class UnknownCpuError(CompileError):
    """The target names no processor that hetir compiles for.

    Cause: a misspelt name. Fix: write `cpu` for this machine, `cpu:x86-64-v3` or another
    processor's name in LLVM's
    spelling, or `cpu:aarch64` (`cpu:aarch64:neoverse-n1`).
    """

    code = "HET352"


@cache
def resolve(name: str) -> tuple[Target, Machine]:
    """What a target name stands for: `cpu`, `cpu:PROCESSOR`, `cpu:TRIPLE[:PROCESSOR]`."""
    head, _, rest = name.partition(":")
    if head != "cpu":
        raise UnknownCpuError(f"`{name}` is no CPU target", hint="write `cpu` or `cpu:NAME`")
    if not rest:
        machine = host()
        return _target(name, machine, _host_features(machine), cache_bytes()), machine
    where, _, processor = rest.partition(":")
    family, _, system = where.partition("-")
    if family in ("aarch64", "arm64") or where in _ARM:
        chosen = processor or (where if where in _ARM else "generic")
        return _known(name, "aarch64", system, chosen, where in _ARM)
    if where in _X86 or family == "x86_64":
        chosen = processor or (where if where in _X86 else "x86-64")
        return _known(name, "x86_64", system, chosen, where in _X86)
    raise _unknown(name, where)


def _known(
    name: str, family: str, system: str, processor: str, bare: bool
) -> tuple[Target, Machine]:
    """A processor of a family; a bare processor name runs on Linux."""
    if processor not in (_ARM if family == "aarch64" else _X86):
        raise _unknown(name, processor)
    triple = f"{family}-{_SYSTEM if bare or not system else system}"
    machine = Machine(triple=triple, cpu=processor)
    if family == "aarch64":
        return _target(name, machine, frozenset(("neon", "sse4.1", "f16c", "fma"))), machine
    return _target(name, machine, frozenset(_LEVELS[_X86[processor]])), machine


def _unknown(name: str, word: str) -> UnknownCpuError:
    known = ", ".join(f"`{n}`" for n in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"))
    return UnknownCpuError(
        f"`{name}` names no processor that hetir knows: `{word}`", hint=f"write one of {known}"
    )


def _host_features(machine: Machine) -> frozenset[str]:
    if machine.triple.startswith(("aarch64", "arm64")):
        return frozenset(("neon", "sse4.1", "f16c", "fma"))
    return frozenset(f[1:] for f in machine.features.split(",") if f.startswith("+"))


def _target(
    name: str, machine: Machine, features: frozenset[str], cache: int = TYPICAL_CACHE
) -> Target:
    """The rules of all CPUs, less those whose instructions this one lacks.

    Without them LLVM would call functions that the object cannot link with. `cache` is the size
    of the last cache in bytes, of interest where stores can go past it.
    """
    rules: dict[Key, object] = dict(RULES)
    if "f16c" not in features:
        for key in HALF_CONVERSIONS:
            del rules[key]
    if "sse4.1" not in features:
        for key in [k for k in rules if k[0] in ROUNDING]:
            del rules[key]
    rules |= dict.fromkeys(memory.covered() | subgroups.covered() | _PROGRAM, True)
    return Target(
        name=name,
        fingerprint=f"{machine.triple};{machine.cpu};{machine.features};{cache}",
        rules=rules,
        features=features,
        limits={"cache_bytes": cache} if machine.triple.startswith("x86_64") else {},
        unsupported=_UNSUPPORTED,
    )


# ops that the emitter of programs handles itself
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

_UNSUPPORTED: Mapping[Key, str] = {
    ("barrier", "device"): "a barrier over the whole grid is not available",
    ("safe_point",): "stopping inside a workgroup is not available",
    ("call",): "a call that was not inlined is not available",
    ("view",): "an array that was not expanded is not available",
}
