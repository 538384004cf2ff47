"""The SPIR-V targets: what each flavour can do directly, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from hetir.backends.spirv import memory, rules
from hetir.backends.spirv.options import FLOAT_ADDS, Options, float_add
from hetir.diagnostics import CompileError
from hetir.ir.types import SCALARS
from hetir.limits import limits_of
from hetir.target import ORDERS_APART, Key, Target

NAMES = ("spirv:opencl", "spirv:vulkan")


class UnknownFlavourError(CompileError):
    """The target names no flavour of SPIR-V.

    Cause: a misspelt name. Fix: write `spirv:opencl` or `spirv:vulkan`.
    """

    code = "HET382"


@cache
def resolve(name: str, options: Options = frozenset()) -> Target:
    """What a target name stands for, where the device has some options."""
    if name not in NAMES:
        raise UnknownFlavourError(
            f"there is no target `{name}`", hint=f"write {' or '.join(f'`{n}`' for n in NAMES)}"
        )
    own = rules.OPENCL if name == "spirv:opencl" else rules.VULKAN
    covered: dict[Key, object] = {**rules.RULES, **own}
    adds = {float_add(element) for option, element in FLOAT_ADDS.items() if option in options}
    covered |= dict.fromkeys(memory.covered() | _PROGRAM | adds, True)
    own_features = {ORDERS_APART} if name == "spirv:vulkan" else set[str]()
    return Target(
        name=name,
        fingerprint=" ".join((name, *sorted(options))),
        rules=covered,
        features=limits_of(name).features | own_features,
        unsupported=_UNSUPPORTED,
    )


# ops that the emitter handles itself
_PROGRAM: frozenset[Key] = frozenset(
    {
        *((n,) for n in ("local_id", "group_id", "group_size", "num_groups", "global_id")),
        *((n,) for n in ("lane_id", "subgroup_id", "subgroup_size", "alloc", "dim", "stride")),
        *((n,) for n in ("base", "fence", "if", "for", "loop", "yield", "break", "continue")),
        *((n,) for n in ("return", "print", "assert", "out_of_bounds")),
        *(("shuffle", kind) for kind in SCALARS),
        ("select", "ref"),
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
