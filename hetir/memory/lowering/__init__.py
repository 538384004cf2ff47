"""The lowering table: what each target emits for each memory operation, or why it refuses.

Backends and the checker read this and nothing else says it. A row is an (operation, order,
scope) of one target. Its steps are emitted in their order. A step's `text` is the target's own
instruction without the operands that vary: `{type}`, `{space}`, `{operation}` and `{mask}` are
left to the emitter. Its `order`, `scope` and `tags` are what the target's memory model
(`hetir.memory.models`) sees of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from hetir.memory.lowering import ascend, cpu, ptx, spirv
from hetir.memory.lowering.ascend import ASCEND_SIMD, ASCEND_SIMT
from hetir.memory.lowering.cpu import AARCH64, X86
from hetir.memory.lowering.ptx import PTX_SM_75, PTX_SM_90
from hetir.memory.lowering.rows import (
    IR_SCOPES,
    Kind,
    Part,
    Row,
    Step,
    impossible,
    operations,
    refuse,
)
from hetir.memory.lowering.spirv import OPENCL, OPENCL_FENCED, VULKAN
from hetir.memory.program import Order, Scope

__all__ = [
    "AARCH64",
    "ASCEND_SIMD",
    "ASCEND_SIMT",
    "IR_SCOPES",
    "OPENCL",
    "OPENCL_FENCED",
    "PTX_SM_75",
    "PTX_SM_90",
    "TABLE",
    "TARGETS",
    "VULKAN",
    "X86",
    "Kind",
    "Part",
    "Row",
    "Step",
    "lookup",
    "target_of",
]

_RULES = {
    PTX_SM_75: ptx.rows,
    PTX_SM_90: ptx.rows,
    OPENCL: spirv.opencl,
    OPENCL_FENCED: spirv.opencl,
    VULKAN: spirv.vulkan,
    X86: cpu.x86,
    AARCH64: cpu.aarch64,
    ASCEND_SIMD: ascend.simd,
    ASCEND_SIMT: ascend.simt,
}

_Key = tuple[str, Kind, Order | None, Scope]


def _build() -> dict[_Key, Row]:
    table: dict[_Key, Row] = {}
    for target, rule in _RULES.items():
        for kind, order, scope in operations():
            reason = impossible(kind, order)
            row = (
                refuse(target, kind, order, scope, reason)
                if reason
                else rule(target, kind, order, scope)
            )
            table[target, kind, order, scope] = row
    return table


TABLE: Mapping[_Key, Row] = _build()
TARGETS = tuple(_RULES)


def target_of(name: str) -> str:
    """Return the table's target for a target name such as `ptx:sm_89` or `ascend:310p`.

    Raises:
        KeyError: the table has no such target.
    """
    if name.startswith("ptx:sm_"):
        number = int("".join(filter(str.isdigit, name.removeprefix("ptx:sm_"))))
        return PTX_SM_90 if number >= 90 else PTX_SM_75
    if name == "ascend:310p":
        return ASCEND_SIMD
    if name not in _RULES:
        raise KeyError(name)
    return name


def lookup(target: str, kind: Kind, order: Order | None, scope: Scope) -> Row:
    """Return the row of an operation on a target of the table."""
    return TABLE[target_of(target), kind, order, scope]
