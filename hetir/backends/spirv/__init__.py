"""SPIR-V: hetIR to modules for OpenCL and for Vulkan."""

from __future__ import annotations

import hashlib

from hetir import spirv_tools
from hetir.artifact import Artifact, Layout, Resources, Variant
from hetir.backends.spirv.disassemble import disassemble
from hetir.backends.spirv.emit import Emitter, entry_of
from hetir.backends.spirv.flavour import Flavour, Workgroup
from hetir.backends.spirv.lanes import exchanges
from hetir.backends.spirv.opencl import OpenCL
from hetir.backends.spirv.options import Options, optional
from hetir.backends.spirv.targets import resolve
from hetir.backends.spirv.uniform import check_exchanges
from hetir.backends.spirv.vulkan import Vulkan
from hetir.ir import ops
from hetir.ir.core import Kernel, walk
from hetir.ir.types import ArrayType
from hetir.passes import pressure
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.layout import layout_of
from hetir.passes.legalize import legalize
from hetir.passes.sites import sites_of

__all__ = ["FLAVOURS", "compile_kernel", "disassemble", "fingerprint"]

VERSION = 11  # of the code that this backend writes, part of every key

FLAVOURS: dict[str, type[Flavour]] = {"spirv:opencl": OpenCL, "spirv:vulkan": Vulkan}


def fingerprint(target: str) -> str:
    """Part of the cache key."""
    return f"{resolve(target).fingerprint} {VERSION}"


def compile_kernel(
    kernel: Kernel, *, target: str = "spirv:opencl", workgroup: Workgroup | None = None
) -> Artifact:
    """Compile a kernel without calls to a SPIR-V module.

    `workgroup` fixes the work-items a workgroup. The module is validated where Khronos'
    validator is installed.
    """
    check_exchanges(kernel, target)
    expanded = expand_arrays(kernel)
    lowered, layout, binary = _emitted(expanded, target, workgroup)
    variants = tuple(
        Variant(
            needs=tuple(sorted(options)), binary=_emitted(expanded, target, workgroup, options)[2]
        )
        for options in optional(expanded, target)
    )
    codes = (binary, *(variant.binary for variant in variants))
    shaped = b"\0".join((fingerprint(target).encode(), *codes))
    return Artifact(
        kernel=kernel.name,
        target=target,
        entry=entry_of(kernel),
        text=disassemble(binary),
        binary=binary,
        layout=layout,
        resources=Resources(
            registers=pressure.registers(lowered),
            shared_bytes=_shared_bytes(lowered),
            lanes=exchanges(lowered),
            source=pressure.SOURCE,
        ),
        workgroup=workgroup,
        subgroup_size=kernel.options.width,
        sites=sites_of(lowered),
        variants=variants,
        key=hashlib.sha256(shaped).hexdigest(),
    )


def _emitted(
    expanded: Kernel, target: str, workgroup: Workgroup | None, options: Options = frozenset()
) -> tuple[Kernel, Layout, bytes]:
    """The legal kernel, its layout and its module, for devices with some options."""
    description = resolve(target, options)
    lowered = legalize(expanded, description)
    layout = layout_of(lowered)
    flavour = FLAVOURS[target](lowered, layout, workgroup, options)
    binary = Emitter(lowered, description, flavour, layout).module()
    spirv_tools.check(binary, flavour.environment)
    return lowered, layout, binary


def _shared_bytes(kernel: Kernel) -> int:
    """Bytes of shared memory, each array aligned to 16 bytes."""
    total = 0
    for op in walk(kernel.body):
        kind = op.attrs.get("type")
        if op.spec is ops.ALLOC and isinstance(kind, ArrayType) and kind.space == "shared":
            size = kind.element.bytes
            for extent in kind.shape or ():
                size *= extent
            total = -(-total // 16) * 16 + size
    return total
