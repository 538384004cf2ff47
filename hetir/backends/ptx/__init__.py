"""NVIDIA: hetIR to PTX through LLVM, and to machine code where NVIDIA's assembler is."""

from __future__ import annotations

import hashlib
from importlib import metadata

from hetir.artifact import Artifact, Resources
from hetir.backends.llvm.machine import compile_ir, version
from hetir.backends.ptx.assembler import Assembled, assemble, disassemble, identity
from hetir.backends.ptx.emit import Emitter, entry_of
from hetir.backends.ptx.frame import SMALL_PARAMETER_BYTES, Workgroup, parameter_bytes
from hetir.backends.ptx.targets import (
    LARGE_PARAMETERS_VERSION,
    ONE_WAY_FENCES_VERSION,
    UnknownPtxTargetError,
    chip_of,
    target_of,
)
from hetir.diagnostics import Label
from hetir.ir import ops
from hetir.ir.core import Kernel, walk
from hetir.limits import check_shared
from hetir.passes import pressure
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.layout import layout_of
from hetir.passes.legalize import legalize
from hetir.passes.narrow_indices import narrow_indices
from hetir.passes.ranges import Bounds
from hetir.passes.sites import sites_of
from hetir.passes.uniformity import uniformity
from hetir.target import Assumptions, UnsupportedError

__all__ = ["UnknownPtxTargetError", "compile_kernel", "emit_ir", "fingerprint", "sass"]

VERSION = 7  # of the code that this backend writes, part of every key
USES = frozenset(("index_bits", "disjoint", "aligned"))
"""The fields of Assumptions that shape the code."""
_NOTHING = Assumptions()
# the PTX version that an instruction needs, where a capability comes with an older one
_NEEDS = {
    "fence.acquire": ONE_WAY_FENCES_VERSION,
    "fence.release": ONE_WAY_FENCES_VERSION,
    "tanh.approx": 70,
}


def fingerprint(target: str) -> str:
    """Part of the cache key: what of LLVM and of the assembler shapes the artifact."""
    parts = (str(VERSION), target, metadata.version("llvmlite"), identity())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def emit_ir(
    kernel: Kernel,
    *,
    target: str,
    workgroup: Workgroup | None = None,
    assumptions: Assumptions = _NOTHING,
) -> str:
    """The LLVM IR of a kernel without calls, before LLVM's own passes."""
    return _emitter(kernel, target, workgroup, assumptions).module()


def compile_kernel(
    kernel: Kernel,
    *,
    target: str,
    optimise: int = 3,
    workgroup: Workgroup | None = None,
    assumptions: Assumptions = _NOTHING,
    binary: bool = True,
    lines: bool | None = None,
) -> Artifact:
    """Compile a kernel without calls to PTX, and to a cubin where an assembler is found.

    `optimise` is LLVM's level, 0 to 3. `workgroup` fixes the work-items a workgroup.
    `assumptions` hold at every launch of the code. Without `binary` nothing is assembled.
    `lines` adds line information, which `debug=True` kernels have anyway.
    docs/ptx.md says what the entry's parameters are.
    """
    chip = chip_of(target)
    lines = kernel.options.debug if lines is None else lines
    emitter = _emitter(kernel, target, workgroup, assumptions, lines)
    layout = layout_of(emitter.kernel)
    text = emitter.module()
    # exchanges between work-items may need more than the kernel's own arrays
    labels = (Label(kernel.loc, ""),) if kernel.loc else ()
    check_shared(chip.limits, emitter.frame.shared_bytes, *labels)
    needs = LARGE_PARAMETERS_VERSION if parameter_bytes(layout) > SMALL_PARAMETER_BYTES else 0
    needs = max([needs, *(least for word, least in _NEEDS.items() if word in text)])
    made = compile_ir(text, chip.machine(needs), level=optimise, assembly=True, vectorise=False)
    assert made.assembly is not None
    assembled = assemble(made.assembly, chip.arch, lines=lines) if binary else None
    shaped = "\0".join((str(VERSION), version(), text, chip.arch, str(needs), str(optimise)))
    return Artifact(
        kernel=kernel.name,
        target=target,
        entry=entry_of(kernel),
        text=made.assembly,
        binary=assembled.binary if assembled else None,
        layout=layout,
        resources=_resources(emitter.frame.shared_bytes, assembled, emitter.kernel),
        workgroup=workgroup,
        subgroup_size=kernel.options.width,
        cooperative=kernel.options.cooperative,
        sites=sites_of(emitter.kernel),
        key=hashlib.sha256(shaped.encode()).hexdigest(),
    )


def lowered(
    kernel: Kernel,
    *,
    target: str,
    workgroup: Workgroup | None = None,
    assumptions: Assumptions = _NOTHING,
) -> Kernel:
    """The kernel as it is emitted: what hetir estimates registers of."""
    return _emitter(kernel, target, workgroup, assumptions).kernel


def sass(artifact: Artifact) -> str:
    """The machine instructions of an artifact. Raises AssemblerError where a tool is missing."""
    return disassemble(artifact.text, artifact.binary, chip_of(artifact.target).arch)


def _emitter(
    kernel: Kernel,
    target: str,
    workgroup: Workgroup | None,
    assumptions: Assumptions,
    lines: bool = False,
) -> Emitter:
    options = kernel.options
    description = target_of(target, options.width, cooperative=options.cooperative)
    lowered = legalize(_narrowed(kernel, target, workgroup, assumptions), description)
    _check_exchanges(lowered, target)
    layout = layout_of(lowered)
    return Emitter(
        lowered, layout, target, workgroup=workgroup, assumptions=assumptions, lines=lines
    )


def _narrowed(
    kernel: Kernel, target: str, workgroup: Workgroup | None, assumptions: Assumptions
) -> Kernel:
    """The kernel without array values, its indices of 32 bits wherever that changes nothing."""
    limits = chip_of(target).limits
    bounds = Bounds(
        index_bits=assumptions.index_bits,
        workgroup=workgroup,
        max_workgroup=limits.max_workgroup_dims,
        max_groups=limits.max_grid_dims,
    )
    return narrow_indices(expand_arrays(kernel), bounds)


def _check_exchanges(kernel: Kernel, target: str) -> None:
    """Subgroups wider than a warp wait for the workgroup: all of it must come along."""
    if kernel.options.width <= 32:
        return
    known = uniformity(kernel)
    for op in walk(kernel.body):
        waits = op.spec is ops.SHUFFLE or op.spec is ops.BARRIER
        if waits and known.divergent(op):
            labels = (Label(op.loc, ""),) if op.loc else ()
            raise UnsupportedError(
                f"a subgroup of {kernel.options.width} work-items in control flow that differs "
                f"within the workgroup is not available on target `{target}`",
                *labels,
                hint="pin `subgroup_size=32`, or make the condition uniform",
            )


def _resources(shared_bytes: int, assembled: Assembled | None, kernel: Kernel) -> Resources:
    if assembled is None:
        guess = pressure.registers(kernel)
        return Resources(registers=guess, shared_bytes=shared_bytes, source=pressure.SOURCE)
    return Resources(
        registers=assembled.registers,
        shared_bytes=shared_bytes,
        item_bytes=0,
        spill_bytes=assembled.spill_bytes,
        source=assembled.source,
    )
