"""What only some devices can do: a kernel that would use it has a form with it and one without.

Each option is a name in `hetir.artifact.Variant.needs`; drivers try it on the device before
they use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from types import MappingProxyType

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, walk
from hetir.ir.types import RefType
from hetir.target import Key

Options = frozenset[str]

SUBGROUPS = "subgroups"
"""The device runs workgroups as subgroups of the kernel's width, in order of the linear id."""

WIDTHS = (8, 16, 32, 64)
"""The widths that drivers can try."""

FLOAT_ADDS: Mapping[str, str] = MappingProxyType({"atomic_f32_add": "f32", "atomic_f64_add": "f64"})
"""Atomic addition of floats, correctly rounded and with subnormal numbers."""

EXCHANGES = (ops.SHUFFLE, ops.BALLOT, ops.VOTE, ops.SUBGROUP_REDUCE, ops.SUBGROUP_SCAN)


def float_add(element: str) -> Key:
    """The key of an atomic addition."""
    return ("atomic.rmw", "add", element)


def optional(kernel: Kernel, target: str) -> tuple[Options, ...]:
    """The sets of options that the kernel has a form with, the largest first."""
    used = _used(kernel, target)
    sizes = range(len(used), 0, -1)
    return tuple(frozenset(chosen) for size in sizes for chosen in combinations(used, size))


def _used(kernel: Kernel, target: str) -> list[str]:
    body = tuple(walk(kernel.body))
    used: list[str] = []
    if kernel.options.width in WIDTHS and any(op.spec in EXCHANGES for op in body):
        used.append(SUBGROUPS)
    for option, element in FLOAT_ADDS.items():
        places = {_space(op) for op in body if _adds(op, element)}
        # Vulkan's shared arrays hold integers
        if places and not (target == "spirv:vulkan" and "shared" in places):
            used.append(option)
    return used


def _adds(op: Operation, element: str) -> bool:
    if op.spec is not ops.ATOMIC_RMW:
        return False
    return op.attrs["kind"] == "add" and str(op.attrs["element"]) == element


def _space(op: Operation) -> str:
    kind = op.operands[0].type
    assert isinstance(kind, RefType)
    return kind.space
