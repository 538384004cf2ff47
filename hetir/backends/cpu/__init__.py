"""The CPU: hetIR to object code through LLVM."""

from __future__ import annotations

import hashlib
from math import prod

from hetir.artifact import Artifact, Resources
from hetir.backends.cpu.emit import Emitter, entry_of
from hetir.backends.cpu.frame import Workgroup
from hetir.backends.cpu.order import side_by_side
from hetir.backends.cpu.schedule import schedule
from hetir.backends.cpu.targets import UnknownCpuError, resolve
from hetir.backends.host import VERSION
from hetir.backends.llvm.machine import compile_ir, version
from hetir.ir.core import Kernel
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.idle_barriers import drop_idle_barriers
from hetir.passes.layout import layout_of
from hetir.passes.legalize import legalize
from hetir.passes.sites import sites_of
from hetir.passes.unroll_exchanges import unroll_exchanges
from hetir.target import Assumptions, Target

__all__ = ["UnknownCpuError", "compile_kernel", "disassemble", "emit_ir"]

_NOTHING = Assumptions()


def emit_ir(
    kernel: Kernel,
    *,
    target: str = "cpu",
    workgroup: Workgroup | None = None,
    assumptions: Assumptions = _NOTHING,
    lanes: int | None = None,
) -> str:
    """The LLVM IR of a kernel without calls, before LLVM's own passes."""
    description = resolve(target)[0]
    lowered = legalize(expand_arrays(kernel), description)
    return _emitter(lowered, description, workgroup, assumptions, lanes).module()


def compile_kernel(
    kernel: Kernel,
    *,
    target: str = "cpu",
    optimise: int = 3,
    workgroup: Workgroup | None = None,
    assumptions: Assumptions = _NOTHING,
    lanes: int | None = None,
) -> Artifact:
    """Compile a kernel without calls to an object.

    `optimise` is LLVM's level, 0 to 3. `workgroup` fixes the work-items a workgroup.
    `assumptions` is what every launch promises of its arguments. `lanes` is how many work-items
    run as one vector (a power of two, or 0 for one at a time); vectors need `workgroup`.
    """
    description, machine = resolve(target)
    lowered = legalize(expand_arrays(kernel), description)
    emitter = _emitter(lowered, description, workgroup, assumptions, lanes)
    text = emitter.module()
    output = compile_ir(text, machine, level=optimise, vectorise=not emitter.vectors)
    shaped = "\0".join((str(VERSION), version(), text, description.fingerprint, str(optimise)))
    return Artifact(
        kernel=kernel.name,
        target=target,
        entry=entry_of(kernel),
        text=output.ir,
        binary=output.binary,
        layout=layout_of(lowered),
        resources=Resources(shared_bytes=emitter.plan.shared_bytes, item_bytes=emitter.item_bytes),
        workgroup=workgroup,
        subgroup_size=kernel.options.width,
        sites=sites_of(lowered),
        key=hashlib.sha256(shaped.encode()).hexdigest(),
    )


def _emitter(
    lowered: Kernel,
    target: Target,
    workgroup: Workgroup | None,
    assumptions: Assumptions,
    lanes: int | None,
) -> Emitter:
    if workgroup is not None:
        lowered = drop_idle_barriers(lowered, workgroup, disjoint=assumptions.disjoint)
    if lanes != 0:
        lowered = side_by_side(unroll_exchanges(lowered))
    program = schedule(lowered)
    layout = layout_of(lowered)
    chosen = lanes is None
    lanes = vector_lanes(target) if lanes is None else lanes
    width = lowered.options.width if program.has_subgroups else lanes
    lanes = min(lanes, width) if workgroup and prod(workgroup) > lanes // 2 else 0
    while lanes and width % lanes:
        lanes //= 2
    lanes = lanes if lanes > 1 else 0
    return Emitter(
        lowered,
        program,
        layout,
        target,
        workgroup=workgroup,
        assumptions=assumptions,
        lanes=lanes,
        register_bytes=register_bytes(target) if chosen else 0,
    )


def vector_lanes(target: Target) -> int:
    """How many work-items fill a vector of 32-bit values twice over at most."""
    features = target.features
    return 16 if "avx512f" in features else 8 if "avx2" in features else 4


def register_bytes(target: Target) -> int:
    """The bytes of all vector registers together."""
    features = target.features
    return 2048 if "avx512f" in features else 512 if features & {"avx2", "neon"} else 256


def disassemble(artifact: Artifact) -> str:
    """The assembly of an artifact's code."""
    machine = resolve(artifact.target)[1]
    made = compile_ir(artifact.text, machine, level=3, assembly=True, optimised=True)
    return made.assembly or ""
