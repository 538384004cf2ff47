"""The Ascend targets: what each architecture does directly, and what it refuses and why."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from hetir.backends.ascend import simd_scalar, simt
from hetir.backends.ascend.simd_state import Chip
from hetir.backends.ascend.simt_target import PROGRAM, UNSUPPORTED
from hetir.diagnostics import CompileError
from hetir.ir.types import SCALARS
from hetir.limits import limits_of, targets
from hetir.limits.model import AscendUnit
from hetir.target import Key, Target, instances

_ARCHITECTURES: Mapping[str, int] = {
    "ascend:910b": 2201,
    "ascend:910c": 2201,
    "ascend:310p": 2002,
}
SIMD = tuple(_ARCHITECTURES)


class UnknownAscendTargetError(CompileError):
    """The target names no Ascend processor that hetir compiles for.

    Cause: a misspelt name. Fix: write `ascend:910b`, `ascend:910c` or `ascend:310p`.
    """

    code = "HET390"


@cache
def chip_of(name: str) -> Chip:
    """The architecture that a target name stands for."""
    if name not in _ARCHITECTURES and name in targets():
        raise UnknownAscendTargetError(
            f"`{name}` has no backend in this version",
            hint=f"write {', '.join(f'`{n}`' for n in SIMD[:-1])} or `{SIMD[-1]}`",
        )
    if name not in _ARCHITECTURES:
        raise UnknownAscendTargetError(
            f"there is no target `{name}`",
            hint=f"write {', '.join(f'`{n}`' for n in SIMD[:-1])} or `{SIMD[-1]}`",
        )
    arch, limits = _ARCHITECTURES[name], limits_of(name)
    assert isinstance(limits.unit, AscendUnit)
    return Chip(
        name=name,
        arch=arch,
        pads=arch == 2201,
        int_equal=arch == 2201,
        bfloat=arch == 2201,
        buffer_bytes=limits.shared_bytes,
    )


@cache
def resolve(name: str) -> Target:
    """What a target name stands for."""
    if name == simt.NAME:
        return simt.target()
    chip = chip_of(name)
    covered: dict[Key, object] = dict.fromkeys(simd_scalar.RULES, True)
    covered |= dict.fromkeys(_memory() | PROGRAM, True)
    return Target(
        name=name,
        fingerprint=f"{name} {chip.arch}",
        rules=covered,
        features=limits_of(name).features,
        unsupported=_refused(covered),
    )


def _memory() -> frozenset[Key]:
    found: set[Key] = {(name, kind) for name in ("load", "store") for kind in SCALARS}
    for instance in instances():
        name, *kinds = instance.key
        # f64 is only moved
        if name.startswith("atomic.") and ("f64" not in kinds or kinds[0] in ("exchange", "f64")):
            found.add(instance.key)
    return frozenset(found)


def _refused(covered: Mapping[Key, object]) -> dict[Key, str]:
    """Every op on f64 that needs more than moving its bits, and what no program of lanes can do."""
    found = dict(UNSUPPORTED)
    for instance in instances():
        key = instance.key
        if "f64" in key and key not in covered:
            found[key] = f"`{instance.spec.name}` on `f64` is not available (no f64 unit)"
    return found
