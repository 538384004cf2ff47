"""The table of all instructions that run as steps, filled by the modules that define them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hetir.emulator.ptx import (
    access,
    atomics,
    barrier,
    bits,
    compare,
    convert,
    floats,
    integers,
    warp,
)
from hetir.emulator.ptx.build import BUILDERS, Build, Builder, Step
from hetir.emulator.ptx.faults import PtxUnknownError

MODULES = (access, atomics, barrier, bits, compare, convert, floats, integers, warp)
INSTRUCTIONS: Mapping[str, Builder] = MappingProxyType(BUILDERS)


def step_of(b: Build) -> Step:
    """The step that executes an instruction, for the lanes that are active."""
    builder = INSTRUCTIONS.get(b.ins.opcode)
    if builder is None:
        raise PtxUnknownError(f"the instruction `{b.ins.opcode}` is not known", b.ins.place)
    step = builder(b)
    b.end()
    return step
